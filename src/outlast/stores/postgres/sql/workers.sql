-- name: register
-- Add a worker, or its row anew while its lease runs. A lease that lapsed never revives.
insert into outlast.workers as w (
  id, host, pid, queues, functions, deploy, python, schema, started_at, expires_at, versions, renewed_at, release
)
select
  :id::text, :host::text, :pid::bigint, :queues::text[], :functions::text[], :deploy::text, :python::text,
  :schema::int, coalesce(nullif(:started_at::bigint, 0), clock.now), clock.now + :lease::bigint,
  :versions::text[], clock.now, :release::text
from (select outlast.now_us() as now) clock
on conflict (id) do update set
  host = excluded.host, pid = excluded.pid, queues = excluded.queues, functions = excluded.functions,
  deploy = excluded.deploy, python = excluded.python, schema = excluded.schema, started_at = excluded.started_at,
  expires_at = excluded.expires_at, versions = excluded.versions, renewed_at = excluded.renewed_at,
  release = excluded.release
where w.dead_at is null and w.expires_at > outlast.now_us()
returning w.expires_at - :lease::bigint as now;

-- name: renew
-- Extend a lease that has not lapsed; with it comes whether the worker was asked to drain.
update outlast.workers set expires_at = outlast.now_us() + :lease::bigint, renewed_at = outlast.now_us()
where id = :id::text and dead_at is null and expires_at > outlast.now_us()
returning expires_at - :lease::bigint as now, drain_asked_at;

-- name: ask_drain
-- Put on record that a worker whose lease runs is to drain, since when it was first asked.
update outlast.workers set drain_asked_at = coalesce(drain_asked_at, outlast.now_us())
where id = :id::text and dead_at is null and expires_at > outlast.now_us()
returning drain_asked_at;

-- name: find_gone
-- A worker that is dead, or lapsed, and whose row nobody holds. It is locked against its fence, which a plain update would
-- not do (PROTOCOL F1).
select id from outlast.workers
where dead_at is not null or expires_at <= outlast.now_us()
order by id limit 1 for update skip locked;

-- name: find_held
-- The same for one whose row somebody holds: another reaper, or a last commit of its own. That is waited for.
select id from outlast.workers
where dead_at is not null or expires_at <= outlast.now_us()
order by id limit 1 for update;

-- name: lock
-- The worker's row, against its fence: what it has in flight is waited for.
select id from outlast.workers where id = :id::text for update;

-- name: mark_dead
-- From now on it writes nothing: before any of its runs is touched.
update outlast.workers set dead_at = outlast.now_us() where id = :id::text and dead_at is null;

-- name: reap_runs
-- Release a page of runs of a dead worker, to be taken over after their back-off. Locks: runs, ascending.
update outlast.runs r set
  owner = null, epoch = r.epoch + 1, recoveries = r.recoveries + 1, updated_at = clock.now,
  wake_at = clock.now + coalesce((:delays::bigint[])[r.recoveries + 1], :longest::bigint)
from (
  select uid from outlast.runs where owner = :id::text order by uid limit :limit::bigint for no key update
) theirs
cross join (select outlast.now_us() as now) clock
where r.uid = theirs.uid;

-- name: hand_back_runs
-- Release a page of runs of a worker that stops. Locks: runs, ascending.
update outlast.runs r set owner = null, epoch = r.epoch + 1, wake_at = outlast.now_us()
from (
  select uid from outlast.runs where owner = :id::text order by uid limit :limit::bigint for no key update
) theirs
where r.uid = theirs.uid;

-- name: owns_any
-- Whether a worker has runs still.
select exists (select 1 from outlast.runs where owner = :id::text) as owns;

-- name: delete
-- Forget a worker of which nothing is left.
delete from outlast.workers where id = :id::text;

-- name: find_orphan_owner
-- Somebody who owns runs and has no row; one seek for each owner there is.
with recursive owners (id) as (
  (select owner from outlast.runs where owner is not null order by owner limit 1)
  union all
  select (select r.owner from outlast.runs r where r.owner > o.id order by r.owner limit 1)
  from owners o where o.id is not null
)
select o.id from owners o
where o.id is not null and not exists (select 1 from outlast.workers w where w.id = o.id) limit 1;

-- name: list
-- All workers.
select
  id, host, pid, queues, functions, deploy, python, started_at, expires_at, dead_at, versions, renewed_at,
  drain_asked_at, release
from outlast.workers order by id;

-- name: count_held
-- How many runs and tasks each of these workers holds, neither counted past a limit.
select
  asked.id,
  (select count(*) from (select 1 from outlast.runs r where r.owner = asked.id limit :most::bigint) held) as runs,
  (select count(*) from (select 1 from outlast.tasks t where t.owner = asked.id limit :most::bigint) held) as tasks
from unnest(:ids::text[]) with ordinality as asked (id, place) order by asked.place;

-- name: list_held_tasks
-- Tasks that a worker holds, the first ones taken first.
select t.run_uid, r.id, r.workflow, t.key, t.attempt, t.queue, t.function, t.claimed_at, r.user_id
from outlast.tasks t join outlast.runs r on r.uid = t.run_uid
where t.owner = :worker::text order by t.claimed_at, t.run_uid, t.key limit :limit::bigint;

-- name: now
-- The store's clock.
select outlast.now_us() as now;

-- name: notify
-- Tell all who listen on a channel that something may have changed.
select pg_notify(:channel::text, '');
