-- name: lock_shared
-- One at a time counts the places of what has a limit, and gives some. Locks: this, before all else, and in the order of
-- the names where there are two.
select pg_advisory_xact_lock(hashtextextended(:name::text, 0));

-- name: claim_pooled
-- Give due runs of one queue and pool to a worker, as they are shared out: first those of the groups that have the
-- fewest places, then of those that were longest not given one; no more than the pool and the queue may have owned.
-- Seeks: one for each group that waits, once there is a place; runs are read of as many groups as there are places, and
-- of some more, for peers may hold the first.
-- Locks: the worker's row, then runs that nobody else holds.
with recursive me as (
  select id from outlast.workers where id = :worker::text and dead_at is null for key share
), clock as materialized (
  select outlast.now_us() as now, greatest(0, least(
    :limit::bigint,
    :most::bigint - (
      select count(*) from outlast.runs h
      where coalesce(h.owner, '') <> '' and h.pool is not null and h.pool = :pool::text
    ),
    :queue_most::bigint - (
      select count(*) from outlast.runs h
      where coalesce(h.owner, '') > '' and h.pool is not null and h.queue = :queue::text
    )
  )) as places
  from me
), groups (priority, name) as (
  select l.priority, (
    select r.share from outlast.runs r
    where coalesce(r.wake_at, -1) > -1 and r.pool is not null
      and r.queue = :queue::text and r.pool = :pool::text and r.priority = l.priority
    order by r.share limit 1
  )
  from clock cross join generate_series(10, 19) as l (priority) where clock.places > 0
  union all
  select g.priority, (
    select r.share from outlast.runs r
    where coalesce(r.wake_at, -1) > -1 and r.pool is not null
      and r.queue = :queue::text and r.pool = :pool::text and r.priority = g.priority and r.share > g.name
    order by r.share limit 1
  )
  from groups g where g.name is not null
), standing as materialized (
  select g.priority, g.name, held.count as held, coalesce(served.at, 0) as served_at
  from groups g cross join clock cross join lateral (
    select r.wake_at from outlast.runs r
    where coalesce(r.wake_at, -1) > -1 and r.pool is not null
      and r.queue = :queue::text and r.pool = :pool::text and r.priority = g.priority and r.share = g.name
      and coalesce(r.wake_at, -1) <= clock.now and not :deploy::text = any (r.unfit)
    order by coalesce(r.wake_at, -1) limit 1
  ) head
  cross join lateral (
    select count(*) as count from outlast.runs h
    where coalesce(h.owner, '') <> '' and h.pool is not null and h.pool = :pool::text and h.share = g.name
  ) held
  cross join lateral (
    select (select s.served_at from outlast.shares s where s.pool = :pool::text and s.share = g.name) as at
  ) served
  where g.name is not null
  order by
    case when :oldest_first::boolean then 0 else g.priority end, held.count, coalesce(served.at, 0), head.wake_at, g.name
  limit (select places + 20 from clock)
), candidates as materialized (
  select d.uid, d.wake_at, s.priority, s.served_at, s.held + d.rank as held, clock.now
  from standing s cross join clock cross join lateral (
    select c.*, row_number() over (order by c.wake_at, c.uid) as rank from (
      select r.uid, r.wake_at from outlast.runs r
      where coalesce(r.wake_at, -1) > -1 and r.pool is not null
        and r.queue = :queue::text and r.pool = :pool::text and r.priority = s.priority and r.share = s.name
        and coalesce(r.wake_at, -1) <= clock.now and not :deploy::text = any (r.unfit)
      order by coalesce(r.wake_at, -1) limit clock.places + 20
    ) c
  ) d
), due as materialized (
  select r.uid, c.wake_at, c.priority, c.served_at, c.held, r.status
  from candidates c join outlast.runs r on r.uid = c.uid
  where coalesce(
    r.owner is null and r.wake_at <= c.now and r.pool = :pool::text and not :deploy::text = any (r.unfit), false
  )
  order by case when :oldest_first::boolean then 0 else c.priority end, c.held, c.served_at, c.wake_at, c.uid
  limit (select places from clock) for no key update of r skip locked
), taken as (
  update outlast.runs r set
    owner = :worker::text, epoch = r.epoch + 1, wake_at = null, updated_at = clock.now,
    started_at = coalesce(r.started_at, clock.now),
    status = case r.status when 'queued' then 'running' else r.status end
  from due cross join clock
  where r.uid = due.uid
  returning
    r.uid, r.epoch, r.recoveries, r.status, r.workflow, r.queue, r.pool, due.status as was, r.share,
    due.priority, due.held, due.served_at, due.wake_at
)
select
  taken.uid, taken.epoch, taken.recoveries, taken.status, taken.workflow, taken.queue, taken.pool, taken.was,
  taken.share
from me left join taken on true
order by
  case when :oldest_first::boolean then 0 else taken.priority end, taken.held, taken.served_at, taken.wake_at,
  taken.uid;

-- name: serve
-- Note which groups were given places. Claims of the pool are one at a time.
insert into outlast.shares (pool, share, served_at)
select :pool::text, b.share, outlast.now_us() from unnest(:share::text[]) as b (share)
on conflict (pool, share) do update set served_at = excluded.served_at;

-- name: forget
-- Who was given one long ago is as who never was.
delete from outlast.shares where pool = :pool::text and served_at < outlast.now_us() - :kept::bigint;

-- name: pool_run
-- Give up a run that was claimed and not looked at, into its pool.
update outlast.runs r set
  owner = null, wake_at = outlast.now_us(), pool = :pool::text, share = :share::text, priority = r.priority % 10 + 10,
  status = case when :was_queued::boolean then 'queued' else r.status end,
  started_at = case when :was_queued::boolean and r.started_at = r.updated_at then null else r.started_at end
where r.uid = :uid::text and r.owner = :worker::text and r.epoch = :epoch::bigint and r.pool is null;

-- name: leave_pool
-- Runs that nobody owns leave their pools: what came for them is not to wait for a place. Their rows are locked already.
update outlast.runs r set pool = null, share = '', priority = r.priority % 10
where r.uid = any (:uids::text[]) and r.owner is null and r.pool is not null;

-- name: list_pools
-- The queues and pools in which runs are due, or will be: a seek for each.
with recursive queues (name) as (
  (select r.queue from outlast.runs r where coalesce(r.wake_at, -1) > -1 and r.pool is not null order by r.queue limit 1)
  union all
  select (
    select r.queue from outlast.runs r
    where coalesce(r.wake_at, -1) > -1 and r.pool is not null and r.queue > q.name order by r.queue limit 1
  )
  from queues q where q.name is not null
), lanes (queue, pool) as (
  select q.name, (
    select r.pool from outlast.runs r
    where coalesce(r.wake_at, -1) > -1 and r.pool is not null and r.queue = q.name order by r.pool limit 1
  )
  from queues q where q.name is not null
  union all
  select l.queue, (
    select r.pool from outlast.runs r
    where coalesce(r.wake_at, -1) > -1 and r.pool is not null and r.queue = l.queue and r.pool > l.pool
    order by r.pool limit 1
  )
  from lanes l where l.pool is not null
)
select queue, pool from lanes where pool is not null order by queue collate "C", pool collate "C";

-- name: look
-- `look`, with when the first run of each of these queues and pools is due: a seek for each level.
select one.*, lanes.queues, lanes.pools, lanes.due_at
from ($(claims.look)) one
cross join (
  select
    coalesce(array_agg(lane.queue), '{}') as queues, coalesce(array_agg(lane.pool), '{}') as pools,
    coalesce(array_agg(lane.due_at), '{}') as due_at
  from (
    select q.queue, q.pool, min(d.wake_at) as due_at
    from unnest(:queue::text[], :pool::text[]) with ordinality as q (queue, pool, place)
    cross join generate_series(10, 19) as l (priority)
    cross join lateral (
      select r.wake_at from outlast.runs r
      where r.wake_at > -1 and r.pool is not null
        and r.queue = q.queue and r.pool = q.pool and r.priority = l.priority and not :deploy::text = any (r.unfit)
      order by r.wake_at limit 1
    ) d
    group by q.place, q.queue, q.pool order by q.place
  ) lane
) lanes;
