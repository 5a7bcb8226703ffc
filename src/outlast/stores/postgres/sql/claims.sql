-- name: claim_runs
-- Give due runs to a worker, under a new epoch: by priority and the time they are due; or by the latter alone. Each
-- level of each queue gives candidates from the head of its index, so neither a backlog nor sleeping runs are walked or
-- sorted; there are more of them than are wanted, for peers may hold the first. What is asked of a candidate's row when
-- it is locked is put so that no index but the key can answer. No row: the worker lost its lease.
-- Locks: the worker's row, then runs that nobody else holds.
with me as (
  select id from outlast.workers where id = :worker::text and dead_at is null for key share
), clock as materialized (
  select outlast.now_us() as now from me
), candidates as materialized (
  select d.uid, d.wake_at, l.priority, clock.now
  from clock cross join generate_series(0, 9) as l (priority) cross join unnest(:queues::text[]) as q (queue)
  cross join lateral (
    select r.uid, r.wake_at from outlast.runs r
    where r.queue = q.queue and r.priority = l.priority and r.wake_at <= clock.now
      and not :deploy::text = any (r.unfit)
    order by r.wake_at limit 2 * :limit::bigint + 100
  ) d
), due as materialized (
  select r.uid, r.wake_at, r.priority, r.status
  from candidates c join outlast.runs r on r.uid = c.uid
  where coalesce(r.owner is null and r.wake_at <= c.now and not :deploy::text = any (r.unfit), false)
  order by case when :oldest_first::boolean then 0 else c.priority end, c.wake_at, c.uid
  limit :limit::bigint for no key update of r skip locked
), taken as (
  update outlast.runs r set
    owner = :worker::text, epoch = r.epoch + 1, wake_at = null, updated_at = clock.now,
    started_at = coalesce(r.started_at, clock.now),
    status = case r.status when 'queued' then 'running' else r.status end
  from due cross join clock
  where r.uid = due.uid
  returning
    r.uid, r.epoch, r.recoveries, r.status, r.workflow, r.queue, r.pool, due.status as was, due.priority, due.wake_at
)
select
  taken.uid, taken.epoch, taken.recoveries, taken.status, taken.workflow, taken.queue, taken.pool, taken.was
from me left join taken on true
order by case when :oldest_first::boolean then 0 else taken.priority end, taken.wake_at, taken.uid;

-- name: claim_tasks
-- Give due tasks to a worker, as `claim_runs`. Locks: the worker's row, then tasks that nobody else holds.
with me as (
  select id from outlast.workers where id = :worker::text and dead_at is null for key share
), clock as materialized (
  select outlast.now_us() as now from me
), candidates as materialized (
  select d.run_uid, d.key, d.due_at, l.priority, clock.now
  from clock cross join generate_series(0, 9) as l (priority) cross join unnest(:queues::text[]) as q (queue)
  cross join lateral (
    select t.run_uid, t.key, t.due_at from outlast.tasks t
    where t.owner is null and not t.stop
      and t.queue = q.queue and t.priority = l.priority and t.due_at <= clock.now
      and t.function = any (:functions::text[])
    order by t.due_at limit 2 * :limit::bigint + 100
  ) d
), due as materialized (
  select t.run_uid, t.key, t.due_at, t.priority
  from candidates c join outlast.tasks t on t.run_uid = c.run_uid and t.key = c.key
  where coalesce(
    t.owner is null and not t.stop and t.due_at <= c.now and t.function = any (:functions::text[]), false
  )
  order by case when :oldest_first::boolean then 0 else c.priority end, c.due_at, c.run_uid, c.key
  limit :limit::bigint for update of t skip locked
), taken as (
  update outlast.tasks t set
    owner = :worker::text, claimed_at = clock.now, lease_expires_at = clock.now + :lease::bigint
  from due cross join clock
  where t.run_uid = due.run_uid and t.key = due.key
  returning t.run_uid, t.key, t.attempt, t.queue, t.function, t.arguments, t.details, due.priority, due.due_at
)
select taken.run_uid, taken.key, taken.attempt, taken.queue, taken.function, taken.arguments, taken.details
from me left join taken on true
order by case when :oldest_first::boolean then 0 else taken.priority end, taken.due_at, taken.run_uid, taken.key;

-- name: lock_queue
-- One at a time counts what is held of a queue that has a limit, and adds to it. Locks: the queue, before all else.
select pg_advisory_xact_lock(hashtextextended(:name::text, 0));

-- name: claim_shared
-- Give due tasks of one queue to a worker, when it is shared out: first those of the groups that have the fewest held,
-- then by their turns; no more than the queue may have held at once. Seeks: one for each group that waits.
-- Locks: the worker's row, then tasks that nobody else holds.
with recursive me as (
  select id from outlast.workers where id = :worker::text and dead_at is null for key share
), clock as materialized (
  select outlast.now_us() as now from me
), shares (priority, name) as (
  select l.priority, (
    select t.share from outlast.tasks t
    where t.owner is null and not t.stop and t.queue = :queue::text and t.priority = l.priority
    order by t.share limit 1
  )
  from generate_series(0, 9) as l (priority)
  union all
  select s.priority, (
    select t.share from outlast.tasks t
    where t.owner is null and not t.stop and t.queue = :queue::text and t.priority = s.priority and t.share > s.name
    order by t.share limit 1
  )
  from shares s where s.name is not null
), standing as materialized (
  select s.priority, s.name, (
    select count(*) from outlast.tasks h where coalesce(h.owner, '') <> '' and h.queue = :queue::text and h.share = s.name
  ) as held
  from shares s where s.name is not null
), candidates as materialized (
  select d.run_uid, d.key, d.due_at, d.turn, s.priority, s.held + d.rank as held, clock.now
  from standing s cross join clock cross join lateral (
    select c.*, row_number() over (order by c.turn, c.due_at, c.run_uid, c.key) as rank from (
      select t.run_uid, t.key, t.turn, t.due_at from outlast.tasks t
      where t.owner is null and not t.stop and t.queue = :queue::text and t.priority = s.priority
        and t.share = s.name and t.due_at <= clock.now and t.function = any (:functions::text[])
      order by t.turn, t.due_at limit 2 * :limit::bigint + 20
    ) c
  ) d
), due as materialized (
  select t.run_uid, t.key, c.held, c.turn, c.due_at, c.priority
  from candidates c join outlast.tasks t on t.run_uid = c.run_uid and t.key = c.key
  where coalesce(
    t.owner is null and not t.stop and t.due_at <= c.now and t.function = any (:functions::text[]), false
  )
  order by case when :oldest_first::boolean then 0 else c.priority end, c.held, c.turn, c.due_at, c.run_uid, c.key
  limit greatest(0, least(:limit::bigint, :most::bigint - (
    select count(*) from outlast.tasks h where coalesce(h.owner, '') <> '' and h.queue = :queue::text
  )))
  for update of t skip locked
), taken as (
  update outlast.tasks t set
    owner = :worker::text, claimed_at = clock.now, lease_expires_at = clock.now + :lease::bigint
  from due cross join clock
  where t.run_uid = due.run_uid and t.key = due.key
  returning
    t.run_uid, t.key, t.attempt, t.queue, t.function, t.arguments, t.details,
    due.priority, due.held, due.turn, due.due_at
)
select taken.run_uid, taken.key, taken.attempt, taken.queue, taken.function, taken.arguments, taken.details
from me left join taken on true
order by
  case when :oldest_first::boolean then 0 else taken.priority end, taken.held, taken.turn, taken.due_at,
  taken.run_uid, taken.key;

-- name: look
-- All that an idle worker needs to know: when the first run it may claim is due, which of its runs have mail, whether a
-- task is due, one of its own told to stop, a worker dead, the lease of a task over. Seeks, one for each level of each
-- queue; the mail is found by a seek for each run that has any.
with recursive clock as materialized (
  select outlast.now_us() as now
), unread (run_uid) as (
  (select i.run_uid from outlast.inbox i order by i.run_uid limit 1)
  union all
  select (select i.run_uid from outlast.inbox i where i.run_uid > u.run_uid order by i.run_uid limit 1)
  from unread u where u.run_uid is not null
)
select
  clock.now,
  (
    select min(d.wake_at)
    from generate_series(0, 9) as l (priority) cross join unnest(:queues::text[]) as q (queue)
    cross join lateral (
      select r.wake_at from outlast.runs r
      where r.queue = q.queue and r.priority = l.priority and r.wake_at is not null
        and not :deploy::text = any (r.unfit)
      order by r.wake_at limit 1
    ) d
  ) as next_at,
  array(
    select r.uid from unread u cross join lateral (
      select r.uid from outlast.runs r where r.uid = u.run_uid and r.owner = :worker::text offset 0
    ) r limit 500
  ) as mail,
  exists (
    select 1
    from generate_series(0, 9) as l (priority) cross join unnest(:queues::text[]) as q (queue)
    cross join lateral (
      select t.due_at from outlast.tasks t
      where t.owner is null and not t.stop and t.queue = q.queue and t.priority = l.priority and t.due_at <= clock.now
      order by t.due_at limit 1
    ) d
  ) as tasks,
  exists (select 1 from outlast.tasks t where t.owner = :worker::text and t.stop) as stopped,
  exists (select 1 from outlast.workers w where w.dead_at is not null or w.expires_at <= clock.now) as dead,
  coalesce((
    select t.lease_expires_at from outlast.tasks t where t.owner is not null order by t.lease_expires_at limit 1
  ) <= clock.now, false) as lapsed
from clock;
