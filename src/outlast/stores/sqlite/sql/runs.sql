-- name: give_ids_up
-- Runs that ended give the ids they hold to those that start in their place.
with rows (uid, id) as (values :rows)
update runs set holds = 0
from rows b
where runs.uid = b.uid and runs.id = b.id and runs.live = 0 and runs.holds = 1;

-- name: pass_ids_on
-- Rounds that go on give their ids up and name the round that follows; so do first rounds, by which messages find the
-- last.
with rows (uid, next) as (values :rows)
update runs set holds = 0, next = b.next from rows b where runs.uid = b.uid;

-- name: insert_runs
-- Add runs. An id that another run holds, or a uid that is there, is a constraint broken.
insert into runs (
  uid, id, workflow, version, status, owner, epoch, wake_at, deadline, priority, queue, parent, root, user_id,
  started_at, origin, pool, share, next, holds, created_at, updated_at, live
)
with rows (
  uid, id, workflow, version, status, owner, epoch, wake_at, deadline, priority, queue, parent, root, user_id,
  started_at, origin, pool, share, next, holds
) as (values :rows)
select b.*, ?, ?, 1 from rows b where b.uid is not null;

-- name: insert_values
-- Add what belongs to new runs and is not in their rows.
insert into run_values (uid, attributes, trace)
with rows (uid, attributes, trace) as (values :rows)
select * from rows where uid is not null;

-- name: change_rows
-- Summaries, parks and ends: the columns that a commit changes, NULL for those it leaves. A park is for the ownership
-- that `epoch` names and no later one; its run is due at once when mail came that its owner had not seen, for its deploy
-- too, unfit or not: nobody else may be there to read it.
with rows (
  uid, alone, status, waiting_on, recovered, unfit, reopened, ended, epoch, seen, next_at
) as (values :rows), changes as (
  select b.*, me.id as me, clock.now
  from rows b cross join (select ? as id) me cross join (select ? as now) clock
)
update runs set
  status = coalesce(c.status, runs.status),
  waiting_on = coalesce(c.waiting_on, runs.waiting_on),
  recoveries = case when c.recovered then 0 else recoveries end,
  unfit = case
    when c.unfit is null or instr(runs.unfit, c.unfit) or mail <> c.seen then runs.unfit
    else runs.unfit || c.unfit
  end,
  live = case when c.ended then 0 when c.reopened then 1 else live end,
  finished_at = case when c.ended then c.now when c.reopened then null else finished_at end,
  owner = case
    when c.ended or (c.epoch = runs.epoch and owner = c.me and live) then null
    else owner
  end,
  wake_at = case
    when c.ended then null
    when c.epoch = runs.epoch and owner = c.me and live then case when mail = c.seen then c.next_at else c.now end
    when c.reopened and owner is null then min(coalesce(wake_at, c.now), c.now)
    else wake_at
  end,
  updated_at = c.now
from changes c
where runs.uid = c.uid and (not c.alone or (c.epoch = runs.epoch and owner = c.me and live));

-- name: set_errors
-- Runs' errors, NULL to clear them; with an `epoch`, only together with the park that it is for. Before the rows change.
with rows (uid, error, epoch) as (values :rows)
update run_values set error = b.error
from rows b join runs r on r.uid = b.uid cross join (select ? as me) worker
where run_values.uid = b.uid and (b.epoch is null or (b.epoch = r.epoch and r.owner = worker.me and r.live));

-- name: fetch_states
-- What judging a commit needs of runs that are there.
with rows (uid) as (values :rows)
select r.uid, r.owner, r.status from rows b join runs r on r.uid = b.uid;

-- name: fetch_holders
-- Which runs hold these ids, and whether they live.
with rows (id) as (values :rows)
select r.id, r.uid, r.live from rows b join runs r on r.id = b.id and r.holds = 1;

-- name: list_due
-- Runs that a worker may claim, by priority and the time they are due; or by the latter alone. Each level of each queue
-- gives at most `limit` runs from the head of its index, so neither a backlog nor sleeping runs are walked or sorted.
with levels (priority) as (values (0), (1), (2), (3), (4), (5), (6), (7), (8), (9))
select r.no, r.status
from levels l cross join json_each(:queues) q cross join runs r
where r.no in (
  select d.no from runs d indexed by runs_due
  where d.queue = q.value and d.priority = l.priority and d.wake_at <= :now and not instr(d.unfit, :deploy)
  order by d.wake_at limit :limit
)
order by case when :oldest_first then 0 else l.priority end, r.wake_at, r.no
limit :limit;

-- name: own
-- Give runs to a worker, under a new epoch.
update runs set
  owner = :worker, epoch = epoch + 1, wake_at = null, updated_at = :now,
  started_at = coalesce(started_at, :now), status = case status when 'queued' then 'running' else status end
where no in (select value from json_each(:runs))
returning no, uid, epoch, recoveries, status, workflow, queue, pool;

-- name: adopt
-- Own a run again that this worker owns, under a new epoch.
update runs set epoch = epoch + 1 where uid = ? and owner = ? and epoch = ?
returning uid, epoch, recoveries, status, workflow, queue, pool;

-- name: list_owned
-- What a worker owns.
select uid, epoch from runs where owner = ?;

-- name: look
-- All that an idle worker needs to know: when the first run it may claim is due, which of its runs have mail, whether a
-- task is due, one of its own told to stop, a worker dead, the lease of a task over. Seeks, one for each level of each
-- queue; the mail is found by a seek for each run that has any.
with recursive
levels (priority) as (values (0), (1), (2), (3), (4), (5), (6), (7), (8), (9)),
unread (run_uid) as (
  select min(run_uid) from inbox
  union all
  select (select min(i.run_uid) from inbox i where i.run_uid > u.run_uid) from unread u where u.run_uid is not null
)
select
  (
    select min((
      select d.wake_at from runs d indexed by runs_due
      where d.queue = q.value and d.priority = l.priority and d.wake_at is not null and not instr(d.unfit, :deploy)
      order by d.wake_at limit 1
    ))
    from levels l cross join json_each(:queues) q
  ),
  (
    select group_concat(mine.run_uid, char(10)) from (
      select u.run_uid from unread u cross join runs r on r.uid = u.run_uid where r.owner = :worker limit 500
    ) mine
  ),
  exists (
    select 1 from levels l cross join json_each(:queues) q
    where exists (
      select 1 from tasks t indexed by tasks_due
      where t.owner is null and t.stop = 0 and t.queue = q.value and t.priority = l.priority and t.due_at <= :now
    )
  ),
  exists (select 1 from tasks t indexed by tasks_owner where t.owner = :worker and t.stop = 1),
  exists (select 1 from workers where dead_at is not null or expires_at <= :now),
  exists (select 1 from tasks t indexed by tasks_lease where t.owner is not null and t.lease_expires_at <= :now);

-- name: refit
-- Let a deploy claim again a page of what it had left to others. The status of a run that was left is never that of one
-- that ended: a message that reopens a run empties its list, and whoever leaves it then has recorded that it goes on.
update runs set unfit = replace(unfit, :deploy, '')
where no in (
  select no from runs indexed by runs_left
  where unfit <> '' and status in ('queued', 'running', 'compensating') and instr(unfit, :deploy) limit :limit
);

-- name: redue
-- Make suspended runs due that lack what this deploy may have.
update runs set wake_at = :now
where no in (
  select no from runs
  where status = 'suspended' and waiting_on in (select value from json_each(:waiting_on))
    and owner is null and not instr(unfit, :deploy) and (wake_at is null or wake_at > :now)
  limit :limit
);
