-- name: count_runs
-- How many runs are due in each queue, and since when; how many are owned. It walks those, and nothing else.
-- (Levels from 10 on are those of runs that are shared out.)
with recursive queues (name) as (
  (select r.queue from outlast.runs r where r.wake_at is not null order by r.queue limit 1)
  union all
  select (
    select r.queue from outlast.runs r where r.wake_at is not null and r.queue > q.name order by r.queue limit 1
  )
  from queues q where q.name is not null
), standing (queue, due_at, held) as (
  select q.name, d.wake_at, 0
  from (select outlast.now_us() as now) clock cross join generate_series(0, 19) as l (priority) cross join queues q
  cross join lateral (
    select r.wake_at from outlast.runs r
    where r.queue = q.name and r.priority = l.priority and r.wake_at <= clock.now offset 0
  ) d
  union all
  select r.queue, null, 1 from outlast.workers w join outlast.runs r on r.owner = w.id
)
select s.queue, null::text as function, count(s.due_at) as waiting, min(s.due_at) as oldest_at, sum(s.held) as held
from standing s group by s.queue;

-- name: count_tasks
-- The same of tasks, by queue and function.
with recursive queues (name) as (
  (select t.queue from outlast.tasks t where t.owner is null and not t.stop order by t.queue limit 1)
  union all
  select (
    select t.queue from outlast.tasks t
    where t.owner is null and not t.stop and t.queue > q.name order by t.queue limit 1
  )
  from queues q where q.name is not null
), standing (queue, function, due_at, held) as (
  select q.name, d.function, d.due_at, 0
  from (select outlast.now_us() as now) clock cross join generate_series(0, 9) as l (priority) cross join queues q
  cross join lateral (
    select t.function, t.due_at from outlast.tasks t
    where t.owner is null and not t.stop
      and t.queue = q.name and t.priority = l.priority and t.due_at <= clock.now offset 0
  ) d
  union all
  select t.queue, t.function, null, 1 from outlast.workers w join outlast.tasks t on t.owner = w.id
)
select s.queue, s.function, count(s.due_at) as waiting, min(s.due_at) as oldest_at, sum(s.held) as held
from standing s group by s.queue, s.function;
