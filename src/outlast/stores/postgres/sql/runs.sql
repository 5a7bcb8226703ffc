-- name: lock_for_worker
-- The first statement of a worker's transaction: its fence, and the rows it will change. No row: it lost its lease; a
-- row of NULLs: there is none of the runs. `last` is which round of a run is known as its last, if it went on. Locks: the worker's row, then runs, ascending.
select r.*
from (select id from outlast.workers where id = :worker::text and dead_at is null for key share) me
left join lateral (
  select
    r.uid, r.live, r.status, r.mail, r.id, r.owner,
    case when r.next is not null
      then coalesce((select o.next from outlast.runs o where o.uid = r.origin), r.next) end as last
  from outlast.runs r
  where r.uid = any (:uids::text[]) order by r.uid for no key update
) r on true;

-- name: lock
-- The same for who has no lease.
select
  r.uid, r.live, r.status, r.mail, r.id, r.owner,
  case when r.next is not null
    then coalesce((select o.next from outlast.runs o where o.uid = r.origin), r.next) end as last
from outlast.runs r
where r.uid = any (:uids::text[]) order by r.uid for no key update;

-- name: change_rows
-- Summaries, parks and ends: the columns that a commit changes, NULL for those it leaves. A park is for the ownership
-- that `epoch` names and no later one; its run is due at once when mail came that its owner had not seen, for its deploy
-- too, unfit or not: nobody else may be there to read it. After the sends, for a row may be changed once in a statement (PROTOCOL F9). The rows are locked already.
with c as materialized (
  select b.*, clock.now
  from unnest(
    :uid::text[], :alone::boolean[], :status::text[], :waiting_on::text[], :recovered::boolean[], :unfit::text[],
    :reopened::boolean[], :ended::boolean[], :epoch::bigint[], :seen::bigint[], :next_at::bigint[]
  ) as b (uid, alone, status, waiting_on, recovered, unfit, reopened, ended, epoch, seen, next_at)
  cross join (select outlast.now_us() as now) clock
)
update outlast.runs r set
  status = coalesce(c.status, r.status),
  waiting_on = coalesce(c.waiting_on, r.waiting_on),
  recoveries = case when c.recovered then 0 else r.recoveries end,
  unfit = case
    when c.unfit is null or c.unfit = any (r.unfit) or r.mail <> c.seen then r.unfit
    else r.unfit || c.unfit
  end,
  live = case when c.ended then false when c.reopened then true else r.live end,
  finished_at = case when c.ended then c.now when c.reopened then null else r.finished_at end,
  owner = case
    when c.ended or (c.epoch = r.epoch and r.owner = :worker::text and r.live) then null
    else r.owner
  end,
  wake_at = case
    when c.ended then null
    when c.epoch = r.epoch and r.owner = :worker::text and r.live
      then case when r.mail = c.seen then c.next_at else c.now end
    when c.reopened and r.owner is null then least(r.wake_at, c.now)
    else r.wake_at
  end,
  updated_at = c.now
from c
where r.uid = c.uid and (not c.alone or (c.epoch = r.epoch and r.owner = :worker::text and r.live))
returning r.uid, r.live;

-- name: set_errors
-- Runs' errors, NULL to clear them; with an `epoch`, only together with the park that it is for. Before the rows change.
update outlast.run_values v set error = b.error
from unnest(:uid::text[], :error::bytea[], :epoch::bigint[]) as b (uid, error, epoch)
where v.uid = b.uid and (
  b.epoch is null
  or exists (
    select 1 from outlast.runs r
    where r.uid = b.uid and r.epoch = b.epoch and r.owner = :worker::text and r.live
  )
);

-- name: sweep_ended
-- The end of runs: no message stays whose sender would wait for ever, but that of an end which a retry can take back is
-- kept, if it is one that people sent; and who runs a task is told. Answers whether there are tasks that nobody runs.
-- After the rows were locked and changed, in another statement: so it sees all (PROTOCOL F20).
with letters as (
  delete from outlast.inbox where run_uid = any (:uids::text[]) returning run_uid, no, id, kind, payload, sent_at
), kept as (
  insert into outlast.kept (run_uid, no, id, kind, payload, sent_at)
  select l.run_uid, l.no, l.id, l.kind, l.payload, l.sent_at
  from letters l join outlast.runs r on r.uid = l.run_uid
  where l.kind in ('signal', 'decision', 'resume')
    and (r.status = 'failed' or (r.status = 'cancelled' and r.parent is not null))
), doors as (
  delete from outlast.waits where run_uid = any (:uids::text[])
), stopped as (
  update outlast.tasks set stop = true where run_uid = any (:uids::text[]) returning owner
)
select exists (select 1 from stopped where owner is null) as unowned;

-- name: fetch_states
-- What judging a commit needs of runs that are there.
select r.uid, r.owner, r.status from outlast.runs r where r.uid = any (:uids::text[]);

-- name: adopt
-- Own a run again that this worker owns, under a new epoch. No row: it lost its lease; NULLs: the run is not its own.
with me as (
  select id from outlast.workers where id = :worker::text and dead_at is null for key share
), taken as (
  update outlast.runs r set epoch = r.epoch + 1 from me
  where r.uid = :uid::text and r.owner = me.id and r.epoch = :epoch::bigint
  returning r.uid, r.epoch, r.recoveries, r.status, r.workflow, r.queue, r.pool
)
select taken.* from me left join taken on true;

-- name: list_owned
-- What a worker owns.
select uid, epoch from outlast.runs where owner = :worker::text;

-- name: refit
-- Let a deploy claim again a page of what it had left to others. The status of a run that was left is never that of one
-- that ended: a message that reopens a run empties its list, and whoever leaves it then has recorded that it goes on.
update outlast.runs r set unfit = array_remove(r.unfit, :deploy::text)
from (
  select uid from outlast.runs
  where unfit <> '{}' and status in ('queued', 'running', 'compensating') and :deploy::text = any (unfit)
  limit :limit::bigint for no key update skip locked
) fit
where r.uid = fit.uid;

-- name: redue
-- Make a page of suspended runs due that lack what this deploy may have.
update outlast.runs r set wake_at = outlast.now_us()
from (
  select s.uid
  from unnest(:waiting_on::text[]) as w (code) cross join lateral (
    select r.uid from outlast.runs r
    where r.status = 'suspended' and r.waiting_on = w.code
      and r.owner is null and not :deploy::text = any (r.unfit)
      and (r.wake_at is null or r.wake_at > (select outlast.now_us()))
    limit :limit::bigint for no key update skip locked
  ) s
  limit :limit::bigint
) due
where r.uid = due.uid;

-- name: end_runs
-- Entries, some of which end their runs (those with a `status`), and what an end does to a run's row and its mail, in
-- one statement: most runs end without any. One whose row was locked by a sender meanwhile, so that its mail is newer
-- than this statement can see, and one that has tasks, is left out, and is to be ended in several statements
-- (PROTOCOL F20). A position that is taken breaks a constraint, and then nothing happens.
-- Locks: the worker's row, then runs, ascending, then journals, ascending. (For `in`, see `start_runs`.)
with fence as (
  select id from outlast.workers where id = :worker::text and dead_at is null for key share
), b as materialized (
  select * from unnest(
    :uid::text[], :seq::int[], :at::bigint[], :mark::bigint[], :prev::bigint[], :events::bytea[], :status::text[],
    :waiting_on::text[], :recovered::boolean[]
  ) as b (uid, seq, at, mark, prev, events, status, waiting_on, recovered)
), locked as materialized (
  select r.uid
  from fence cross join lateral (
    select r.uid, r.mail from outlast.runs r
    where r.uid = any (array(select b.uid from b where b.status is not null)) order by r.uid for no key update
  ) r
  where r.mail = (select seen.mail from outlast.runs seen where seen.uid = r.uid)
    and not exists (select 1 from outlast.tasks t where t.run_uid = r.uid)
), landed as (
  insert into outlast.journal (run_uid, seq, at, writer, mark, events)
  select b.uid, b.seq, b.at, fence.id, b.mark, b.events
  from fence cross join b
  where (b.status is null or (b.uid in (select locked.uid from locked)) is true)
    and b.prev = (select j.mark from outlast.journal j where j.run_uid = b.uid and j.seq = b.seq - 1)
  order by b.uid collate "C"
  returning run_uid
), ended as materialized (
  select b.* from b where b.status is not null and (b.uid in (select landed.run_uid from landed)) is true
), changed as (
  update outlast.runs r set
    status = ended.status,
    waiting_on = coalesce(ended.waiting_on, r.waiting_on),
    recoveries = case when ended.recovered then 0 else r.recoveries end,
    live = false, owner = null, wake_at = null, finished_at = clock.now, updated_at = clock.now
  from ended cross join (select outlast.now_us() as now) clock
  where r.uid = ended.uid
  returning r.uid, r.status, r.parent
), letters as (
  delete from outlast.inbox where run_uid = any (array(select ended.uid from ended))
  returning run_uid, no, id, kind, payload, sent_at
), kept as (
  insert into outlast.kept (run_uid, no, id, kind, payload, sent_at)
  select l.run_uid, l.no, l.id, l.kind, l.payload, l.sent_at
  from letters l join changed r on r.uid = l.run_uid
  where l.kind in ('signal', 'decision', 'resume')
    and (r.status = 'failed' or (r.status = 'cancelled' and r.parent is not null))
), doors as (
  delete from outlast.waits where run_uid = any (array(select ended.uid from ended))
)
select count(*) as landed from landed;
