-- name: lock_for_worker
-- The first statement of a worker's transaction: its fence, and the rows it will change. No row: it lost its lease; a
-- row of NULLs: there is none of the runs. Locks: the worker's row, then runs, ascending.
select r.*
from (select id from outlast.workers where id = :worker::text and dead_at is null for key share) me
left join lateral (
  select r.uid, r.live, r.status, r.mail, r.id, r.owner from outlast.runs r
  where r.uid = any (:uids::text[]) order by r.uid for no key update
) r on true;

-- name: lock
-- The same for who has no lease.
select r.uid, r.live, r.status, r.mail, r.id, r.owner from outlast.runs r
where r.uid = any (:uids::text[]) order by r.uid for no key update;

-- name: change_rows
-- Summaries, parks and ends: the columns that a commit changes, NULL for those it leaves. A park is for the ownership
-- that `epoch` names and no later one; its run is due at once when mail came that its owner had not seen. After the
-- sends, for a row may be changed once in a statement (PROTOCOL F9). The rows are locked already.
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
  unfit = case when c.unfit is null or c.unfit = any (r.unfit) then r.unfit else r.unfit || c.unfit end,
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
-- The end of runs: no message stays whose sender would wait for ever, and who runs a task is told. Answers whether there
-- are tasks that nobody runs. After the rows were locked, in another statement: so it sees all (PROTOCOL F20).
with letters as (
  delete from outlast.inbox where run_uid = any (:uids::text[])
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
  returning r.uid, r.epoch, r.recoveries, r.status
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
