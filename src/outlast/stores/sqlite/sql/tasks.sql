-- name: stop_tasks
-- Tell the owners of runs' tasks to stop.
update tasks set stop = 1 where run_uid in (with rows (uid) as (values :rows) select * from rows);

-- name: drop_tasks
-- Delete runs' tasks that nobody has claimed.
delete from tasks where owner is null and run_uid in (with rows (uid) as (values :rows) select * from rows);

-- name: drop_keys
-- Delete runs' tasks of these keys that nobody has claimed.
delete from tasks where owner is null and (run_uid, key) in (
  with rows (uid, key) as (values :rows) select * from rows
);

-- name: stop_keys
-- Tell the owners of runs' tasks of these keys to stop.
update tasks set stop = 1 where (run_uid, key) in (with rows (uid, key) as (values :rows) select * from rows);

-- name: insert_tasks
-- Queue attempts, each in the place of an older one of its key.
insert into tasks (run_uid, key, attempt, queue, function, arguments, details, due_at, priority, share, turn)
with rows (uid, key, attempt, queue, function, arguments, details, due_at, priority, share, turn) as (values :rows)
select * from rows where uid is not null
on conflict (run_uid, key) do update set
  attempt = excluded.attempt, queue = excluded.queue, function = excluded.function, arguments = excluded.arguments,
  details = excluded.details, due_at = excluded.due_at, priority = excluded.priority, share = excluded.share,
  turn = excluded.turn,
  owner = null, claimed_at = null, lease_expires_at = null, stop = 0, progress = null;

-- name: list_due
-- Tasks that a worker may claim, as `list_due` of runs.
with levels (priority) as (values (0), (1), (2), (3), (4), (5), (6), (7), (8), (9))
select t.rowid
from levels l cross join json_each(:queues) q cross join tasks t
where t.rowid in (
  select d.rowid from tasks d indexed by tasks_due
  where d.owner is null and d.stop = 0
    and d.queue = q.value and d.priority = l.priority and d.due_at <= :now
    and d.function in (select value from json_each(:functions))
  order by d.due_at limit :limit
)
order by case when :oldest_first then 0 else l.priority end, t.due_at, t.rowid
limit :limit;

-- name: fetch_turns
-- What turn the next task of a group has: one behind its last, and not before the first of all that wait.
with rows (queue, priority, share) as (values :rows)
select b.queue, b.priority, b.share, max(
  coalesce((
    select max(t.turn) + 1 from tasks t indexed by tasks_share
    where t.owner is null and t.stop = 0 and t.queue = b.queue and t.priority = b.priority and t.share = b.share
  ), 0),
  coalesce((
    select min(t.turn) from tasks t indexed by tasks_turn
    where t.owner is null and t.stop = 0 and t.share <> '' and t.queue = b.queue and t.priority = b.priority
  ), 0)
)
from rows b where b.queue is not null;

-- name: list_shared
-- Tasks of one queue that a worker may claim, when it is shared out: first those of the groups that have the fewest
-- held, then by their turns; no more than the queue may have held at once. Seeks: one for each group that waits.
with recursive
levels (priority) as (values (0), (1), (2), (3), (4), (5), (6), (7), (8), (9)),
shares (priority, name) as (
  select l.priority, (
    select min(d.share) from tasks d indexed by tasks_share
    where d.owner is null and d.stop = 0 and d.queue = :queue and d.priority = l.priority
  )
  from levels l
  union all
  select s.priority, (
    select min(d.share) from tasks d indexed by tasks_share
    where d.owner is null and d.stop = 0 and d.queue = :queue and d.priority = s.priority and d.share > s.name
  )
  from shares s where s.name is not null
),
standing (priority, name, held) as (
  select s.priority, s.name, (
    select count(*) from tasks h indexed by tasks_held
    where h.owner is not null and h.queue = :queue and h.share = s.name
  )
  from shares s where s.name is not null
),
candidates (number, priority, due_at, turn, held) as (
  select t.rowid, s.priority, t.due_at, t.turn, s.held + row_number() over (
    partition by s.priority, s.name order by t.turn, t.due_at, t.rowid
  )
  from standing s cross join tasks t
  where t.rowid in (
    select d.rowid from tasks d indexed by tasks_share
    where d.owner is null and d.stop = 0 and d.queue = :queue and d.priority = s.priority and d.share = s.name
      and d.due_at <= :now and d.function in (select value from json_each(:functions))
    order by d.turn, d.due_at limit :limit
  )
)
select number from candidates
order by case when :oldest_first then 0 else priority end, held, turn, due_at, number
limit max(0, min(:limit, coalesce(:most - (
  select count(*) from tasks h indexed by tasks_held where h.owner is not null and h.queue = :queue
), :limit)));

-- name: claim
-- Give tasks to a worker.
update tasks set owner = :worker, claimed_at = :now, lease_expires_at = :until
where rowid in (select value from json_each(:tasks))
returning rowid, run_uid, key, attempt, queue, function, arguments, details;

-- name: renew
-- Extend the leases of tasks that are their worker's still.
with rows (uid, key, attempt, progress) as (values :rows)
update tasks set lease_expires_at = now.until, progress = b.progress
from rows b cross join (select ? as owner, ? as until) now
where tasks.run_uid = b.uid and tasks.key = b.key and tasks.attempt = b.attempt and tasks.owner = now.owner
returning run_uid, key, attempt, stop;

-- name: release
-- Take tasks back from their worker, which has not begun them; but those that are told to stop.
with rows (uid, key, attempt) as (values :rows)
update tasks set owner = null, claimed_at = null, lease_expires_at = null, progress = null, due_at = me.due_at
from rows b cross join (select ? as owner, ? as due_at) me
where tasks.run_uid = b.uid and tasks.key = b.key and tasks.attempt = b.attempt and tasks.owner = me.owner
  and tasks.stop = 0
returning run_uid, key, attempt;

-- name: complete
-- Delete tasks that are their worker's still.
with rows (uid, key, attempt) as (values :rows)
delete from tasks
where rowid in (
  select t.rowid from rows b cross join (select ? as owner) me
  join tasks t on t.run_uid = b.uid and t.key = b.key and t.attempt = b.attempt and t.owner = me.owner
)
returning run_uid, key, attempt;

-- name: list_lapsed
-- Tasks whose lease lapsed, or whose worker is dead or gone.
select run_uid, key, attempt from tasks t indexed by tasks_owner
where owner is not null
  and (lease_expires_at <= ? or not exists (select 1 from workers w where w.id = t.owner and w.dead_at is null))
limit ?;

-- name: delete_tasks
-- Delete attempts.
delete from tasks where (run_uid, key, attempt) in (
  with rows (uid, key, attempt) as (values :rows) select * from rows
);

-- name: fetch_attempts
-- Which of these attempts are queued or running, or have their outcome in the inbox.
with rows (uid, key, attempt) as (values :rows)
select b.key, b.attempt from rows b
where exists (select 1 from tasks t where t.run_uid = b.uid and t.key = b.key and t.attempt = b.attempt)
  or exists (select 1 from inbox i where i.run_uid = b.uid and i.id = b.key || '#' || b.attempt);

-- name: list_tasks
-- A run's tasks.
select key, attempt, queue, function, due_at, owner, claimed_at, stop, coalesce(progress, x'')
from tasks where run_uid = ? order by key;

-- name: count_runs
-- How many runs are due in each queue, and since when; how many are owned. It walks those, and nothing else. Levels from
-- 10 on are those of runs that are shared out.
with recursive
levels (priority) as (
  values (0), (1), (2), (3), (4), (5), (6), (7), (8), (9), (10), (11), (12), (13), (14), (15), (16), (17), (18), (19)
),
queues (name) as (
  select min(queue) from runs where wake_at is not null
  union all
  select (select min(r.queue) from runs r where r.wake_at is not null and r.queue > q.name)
  from queues q where q.name is not null
),
standing (queue, due_at, held) as (
  select q.name, r.wake_at, 0
  from queues q cross join levels l cross join runs r indexed by runs_due
  where r.queue = q.name and r.priority = l.priority and r.wake_at <= :now
  union all
  select r.queue, null, 1 from workers w cross join runs r indexed by runs_owner where r.owner = w.id
)
select queue, null, count(due_at), min(due_at), sum(held) from standing group by queue order by queue;

-- name: count_tasks
-- The same of tasks, by queue and function.
with recursive
levels (priority) as (values (0), (1), (2), (3), (4), (5), (6), (7), (8), (9)),
queues (name) as (
  select min(queue) from tasks where owner is null and stop = 0
  union all
  select (select min(t.queue) from tasks t where t.owner is null and t.stop = 0 and t.queue > q.name)
  from queues q where q.name is not null
),
standing (queue, function, due_at, held) as (
  select q.name, t.function, t.due_at, 0
  from queues q cross join levels l cross join tasks t indexed by tasks_due
  where t.owner is null and t.stop = 0 and t.queue = q.name and t.priority = l.priority and t.due_at <= :now
  union all
  select t.queue, t.function, null, 1 from workers w cross join tasks t indexed by tasks_owner where t.owner = w.id
)
select queue, function, count(due_at), min(due_at), sum(held) from standing group by queue, function order by queue, function;
