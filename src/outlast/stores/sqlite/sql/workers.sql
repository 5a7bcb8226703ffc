-- name: register
-- Add a worker, or its row anew while its lease runs. A lease that lapsed never revives.
insert into workers (
  id, host, pid, queues, functions, deploy, python, schema, started_at, expires_at, versions, renewed_at, release
) values (
  :id, :host, :pid, :queues, :functions, :deploy, :python, :schema, :started_at, :expires_at, :versions, :now, :release
)
on conflict (id) do update set
  host = excluded.host, pid = excluded.pid, queues = excluded.queues, functions = excluded.functions,
  deploy = excluded.deploy, python = excluded.python, schema = excluded.schema, started_at = excluded.started_at,
  expires_at = excluded.expires_at, versions = excluded.versions, renewed_at = excluded.renewed_at,
  release = excluded.release
where dead_at is null and expires_at > :now;

-- name: renew
-- Extend a lease that has not lapsed; with it comes whether the worker was asked to drain.
update workers set expires_at = :until, renewed_at = :now where id = :id and dead_at is null and expires_at > :now
returning drain_asked_at;

-- name: ask_drain
-- Put on record that a worker whose lease runs is to drain, since when it was first asked.
update workers set drain_asked_at = coalesce(drain_asked_at, :now)
where id = :id and dead_at is null and expires_at > :now
returning drain_asked_at;

-- name: is_alive
-- Whether a worker may write: the fence of its every transaction.
select 1 from workers where id = ? and dead_at is null;

-- name: find_gone
-- A worker that is dead, or lapsed.
select id, dead_at from workers where dead_at is not null or expires_at <= ? order by id limit 1;

-- name: mark_dead
-- From now on it writes nothing: before any of its runs is touched.
update workers set dead_at = ? where id = ? and dead_at is null;

-- name: exists
-- Whether the worker has a row.
select 1 from workers where id = ?;

-- name: reap_runs
-- Release runs of a dead worker, to be taken over after their back-off.
update runs set
  owner = null, epoch = epoch + 1, recoveries = recoveries + 1, updated_at = :now,
  wake_at = :now + coalesce((select value from json_each(:delays) where key = runs.recoveries), :longest)
where no in (select no from runs where owner = :worker limit :limit);

-- name: hand_back_runs
-- Release runs of a worker that stops.
update runs set owner = null, epoch = epoch + 1, wake_at = :now
where no in (select no from runs where owner = :worker limit :limit);

-- name: owns_any
-- Whether a worker has runs still.
select exists (select 1 from runs where owner = ?);

-- name: delete
-- Forget a worker of which nothing is left.
delete from workers where id = ?;

-- name: find_orphan_owner
-- Somebody who owns runs and has no row; one seek for each owner there is.
with recursive owners (id) as (
  select min(owner) from runs where owner is not null
  union all
  select (select min(r.owner) from runs r where r.owner > o.id) from owners o where o.id is not null
)
select id from owners where id is not null and not exists (select 1 from workers w where w.id = owners.id) limit 1;

-- name: list
-- All workers.
select
  id, host, pid, deploy, python, started_at, expires_at, dead_at, renewed_at, drain_asked_at, release, queues,
  functions, versions
from workers order by id;

-- name: count_held
-- How many runs and tasks a worker holds, neither counted past a limit.
select
  (select count(*) from (select 1 from runs where owner = :worker limit :most)),
  (select count(*) from (select 1 from tasks where owner = :worker limit :most));

-- name: list_held_tasks
-- Tasks that a worker holds, the first ones taken first.
select t.run_uid, r.id, r.workflow, t.key, t.attempt, t.queue, t.function, t.claimed_at, r.user_id
from tasks t indexed by tasks_owner join runs r on r.uid = t.run_uid
where t.owner = ? order by t.claimed_at, t.run_uid, t.key limit ?;
