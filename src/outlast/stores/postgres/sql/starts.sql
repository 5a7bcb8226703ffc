-- name: give_ids_up
-- Runs that ended give the ids they hold to those that start in their place. Their rows are locked already.
update outlast.runs r set holds = false
from unnest(:uid::text[], :id::text[]) as b (uid, id)
where r.uid = b.uid and r.id = b.id and not r.live and r.holds;

-- name: pass_ids_on
-- Rounds that go on give their ids up and name the round that follows; so do first rounds, by which messages find the
-- last. Their rows are locked already.
update outlast.runs r set holds = false, next = b.next
from unnest(:uid::text[], :next::text[]) as b (uid, next)
where r.uid = b.uid;

-- name: start_runs
-- Add runs, each with its values and its first entry: one whose uid is there, or whose id another run holds, is left
-- out. A worker that lost its lease starts none; a client has no lease. An entry where no run is, of one whose deletion
-- is under way, breaks a constraint, and then nothing happens.
-- Locks: the worker's row, then ids, ascending, then what is new under them. (`in` is a filter here and no join: the
-- planner then looks the few new uids up in a hash, whatever it believes of their number.)
with fence as (
  select id from outlast.workers where id = :worker::text and dead_at is null for key share
), b as materialized (
  select * from unnest(
    :uid::text[], :id::text[], :workflow::text[], :version::text[], :claimed::boolean[], :wake_at::bigint[],
    :deadline::bigint[], :priority::int[], :queue::text[], :parent::text[], :root::text[], :user::text[],
    :attributes::bytea[], :trace::text[], :origin::text[], :pool::text[], :share::text[], :next::text[], :at::bigint[],
    :mark::bigint[], :events::bytea[]
  ) as b (
    uid, id, workflow, version, claimed, wake_at, deadline, priority, queue, parent, root, user_id, attributes, trace,
    origin, pool, share, next, at, mark, events
  )
), clock as materialized (
  select outlast.now_us() as now
), new as (
  insert into outlast.runs (
    uid, id, holds, workflow, version, status, live, owner, epoch, wake_at, deadline, priority, queue, parent, root,
    user_id, origin, pool, share, next, created_at, started_at, updated_at
  )
  select
    b.uid, b.id, b.next is null, b.workflow, b.version,
    case when b.claimed then 'running' else 'queued' end, true,
    case when b.claimed then :worker::text end,
    case when b.claimed then 1 else 0 end,
    case when b.claimed then null else coalesce(b.wake_at, clock.now) end,
    b.deadline, b.priority, b.queue, b.parent, b.root, b.user_id, b.origin, b.pool, b.share, b.next,
    clock.now,
    case when b.claimed then clock.now end, clock.now
  from b cross join clock
  where :worker::text is null or exists (select 1 from fence)
  order by b.id collate "C"
  on conflict do nothing
  returning uid
), kept as (
  insert into outlast.run_values (uid, attributes, trace)
  select b.uid, b.attributes, b.trace from b where (b.uid in (select new.uid from new)) is true
)
insert into outlast.journal (run_uid, seq, at, writer, mark, events)
select b.uid, 0, b.at, coalesce(:worker::text, 'client'), b.mark, b.events
from b where (b.uid in (select new.uid from new)) is true
order by b.uid collate "C";

-- name: fetch_holders
-- Which runs hold these ids, and whether they live.
select r.id, r.uid, r.live
from unnest(:id::text[]) as b (id) join outlast.runs r on r.id = b.id and r.holds;
