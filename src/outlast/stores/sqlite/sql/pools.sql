-- name: list_pooled
-- Runs of one queue and pool that a worker may claim, as they are shared out: first those of the groups that have the
-- fewest places, then of those that were longest not given one; no more than the pool and the queue may have owned.
-- Seeks: one for each group that waits, once there is a place; runs are read of as many groups as there are places.
with recursive
room (places) as (
  select max(0, min(
    :limit,
    coalesce(:most - (
      select count(*) from runs h indexed by runs_placed
      where h.owner is not null and h.pool is not null and h.pool = :pool
    ), :limit),
    coalesce(:queue_most - (
      select count(*) from runs h indexed by runs_placed_queue
      where h.owner is not null and h.pool is not null and h.queue = :queue
    ), :limit)
  ))
),
levels (priority) as (values (10), (11), (12), (13), (14), (15), (16), (17), (18), (19)),
groups (priority, name) as (
  select l.priority, (
    select min(d.share) from runs d indexed by runs_pooled
    where d.wake_at is not null and d.pool is not null
      and d.queue = :queue and d.pool = :pool and d.priority = l.priority
  )
  from room cross join levels l where room.places > 0
  union all
  select g.priority, (
    select min(d.share) from runs d indexed by runs_pooled
    where d.wake_at is not null and d.pool is not null
      and d.queue = :queue and d.pool = :pool and d.priority = g.priority and d.share > g.name
  )
  from groups g where g.name is not null
),
standing (priority, name, wake_at, held, served_at) as (
  select
    g.priority, g.name,
    (
      select d.wake_at from runs d indexed by runs_pooled
      where d.wake_at is not null and d.pool is not null
        and d.queue = :queue and d.pool = :pool and d.priority = g.priority and d.share = g.name
        and d.wake_at <= :now and not instr(d.unfit, :deploy)
      order by d.wake_at limit 1
    ),
    (
      select count(*) from runs h indexed by runs_placed
      where h.owner is not null and h.pool is not null and h.pool = :pool and h.share = g.name
    ),
    coalesce((select s.served_at from shares s where s.pool = :pool and s.share = g.name), 0)
  from groups g where g.name is not null
),
first (priority, name, held, served_at) as (
  select s.priority, s.name, s.held, s.served_at from standing s where s.wake_at is not null
  order by case when :oldest_first then 0 else s.priority end, s.held, s.served_at, s.wake_at
  limit (select places from room)
),
candidates (no, status, share, priority, wake_at, served_at, held) as (
  select r.no, r.status, s.name, s.priority, r.wake_at, s.served_at, s.held + row_number() over (
    partition by s.priority, s.name order by r.wake_at, r.no
  )
  from first s cross join runs r
  where r.no in (
    select d.no from runs d indexed by runs_pooled
    where d.wake_at is not null and d.pool is not null
      and d.queue = :queue and d.pool = :pool and d.priority = s.priority and d.share = s.name
      and d.wake_at <= :now and not instr(d.unfit, :deploy)
    order by d.wake_at limit (select places from room)
  )
)
select no, status, share from candidates
order by case when :oldest_first then 0 else priority end, held, served_at, wake_at, no
limit (select places from room);

-- name: serve
-- Note which groups were given places.
insert into shares (pool, share, served_at)
with rows (pool, share, served_at) as (values :rows)
select * from rows where pool is not null
on conflict (pool, share) do update set served_at = excluded.served_at;

-- name: forget
-- Who was given one long ago is as who never was.
delete from shares where pool = ? and served_at < ?;

-- name: pool_run
-- Give up a run that was claimed and not looked at, into its pool.
update runs set
  owner = null, wake_at = :now, pool = :pool, share = :share, priority = priority % 10 + 10,
  status = case when :was_queued then 'queued' else status end,
  started_at = case when :was_queued and started_at = updated_at then null else started_at end
where uid = :uid and owner = :worker and epoch = :epoch and pool is null;

-- name: leave_pool
-- Runs that nobody owns leave their pools: what came for them is not to wait for a place.
with rows (uid) as (values :rows)
update runs set pool = null, share = '', priority = priority % 10
from rows b where runs.uid = b.uid and runs.owner is null and runs.pool is not null;

-- name: list_pools
-- The queues and pools in which runs are due, or will be: a seek for each.
with recursive queues (name) as (
  select min(r.queue) from runs r indexed by runs_pooled where r.wake_at is not null and r.pool is not null
  union all
  select (
    select min(r.queue) from runs r indexed by runs_pooled
    where r.wake_at is not null and r.pool is not null and r.queue > q.name
  )
  from queues q where q.name is not null
),
lanes (queue, pool) as (
  select q.name, (
    select min(r.pool) from runs r indexed by runs_pooled
    where r.wake_at is not null and r.pool is not null and r.queue = q.name
  )
  from queues q where q.name is not null
  union all
  select l.queue, (
    select min(r.pool) from runs r indexed by runs_pooled
    where r.wake_at is not null and r.pool is not null and r.queue = l.queue and r.pool > l.pool
  )
  from lanes l where l.pool is not null
)
select queue, pool from lanes where pool is not null order by queue, pool;

-- name: look
-- `look`, with when the first run of each of these queues and pools is due: a seek for each level.
select one.*, (
  with levels (priority) as (values (10), (11), (12), (13), (14), (15), (16), (17), (18), (19))
  select json_group_array(json_array(lane.queue, lane.pool, lane.due_at)) from (
    select json_extract(q.value, '$[0]') as queue, json_extract(q.value, '$[1]') as pool, min((
      select d.wake_at from runs d indexed by runs_pooled_due
      where d.wake_at is not null and d.pool is not null
        and d.queue = json_extract(q.value, '$[0]') and d.pool = json_extract(q.value, '$[1]')
        and d.priority = l.priority and not instr(d.unfit, :deploy)
      order by d.wake_at limit 1
    )) as due_at
    from json_each(:lanes) q cross join levels l
    group by q.key
  ) lane where lane.due_at is not null
)
from ($(runs.look)) one;
