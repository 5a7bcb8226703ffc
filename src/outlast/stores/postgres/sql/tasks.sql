-- name: stop_tasks
-- Tell the owners of runs' tasks to stop. Answers whether there are some that nobody has claimed; a claim in flight is
-- waited for, and counts.
with stopped as (
  update outlast.tasks set stop = true where run_uid = any (:uids::text[]) returning owner
)
select exists (select 1 from stopped where owner is null) as unowned;

-- name: drop_tasks
-- Delete runs' tasks that nobody has claimed: after `stop_tasks`, which holds their rows (PROTOCOL F26).
delete from outlast.tasks where run_uid = any (:uids::text[]) and owner is null;

-- name: stop_keys
-- The same for runs' tasks of these keys.
with stopped as (
  update outlast.tasks t set stop = true from unnest(:uid::text[], :key::text[]) as b (uid, key)
  where t.run_uid = b.uid and t.key = b.key
  returning t.owner
)
select exists (select 1 from stopped where owner is null) as unowned;

-- name: drop_keys
-- The same for runs' tasks of these keys.
delete from outlast.tasks t using unnest(:uid::text[], :key::text[]) as b (uid, key)
where t.run_uid = b.uid and t.key = b.key and t.owner is null;

-- name: insert_tasks
-- Queue attempts, each in the place of an older one of its key. Locks: tasks, ascending.
insert into outlast.tasks (run_uid, key, attempt, queue, function, arguments, details, due_at, priority, share, turn)
select b.uid, b.key, b.attempt, b.queue, b.function, b.arguments, b.details, b.due_at, b.priority, b.share, b.turn
from unnest(
  :uid::text[], :key::text[], :attempt::int[], :queue::text[], :function::text[], :arguments::bytea[],
  :details::bytea[], :due_at::bigint[], :priority::int[], :share::text[], :turn::bigint[]
) as b (uid, key, attempt, queue, function, arguments, details, due_at, priority, share, turn)
order by b.uid collate "C", b.key collate "C"
on conflict (run_uid, key) do update set
  attempt = excluded.attempt, queue = excluded.queue, function = excluded.function, arguments = excluded.arguments,
  details = excluded.details, due_at = excluded.due_at, priority = excluded.priority, share = excluded.share,
  turn = excluded.turn,
  owner = null, claimed_at = null, lease_expires_at = null, stop = false, progress = null;

-- name: fetch_turns
-- What turn the next task of a group has: one behind its last, and not before the first of all that wait. Two entries
-- at once may get the same: then the one that has waited longer comes first.
select b.queue, b.priority, b.share, greatest(
  (
    select t.turn + 1 from outlast.tasks t
    where t.owner is null and not t.stop and t.queue = b.queue and t.priority = b.priority and t.share = b.share
    order by t.turn desc limit 1
  ),
  (
    select t.turn from outlast.tasks t
    where t.owner is null and not t.stop and t.share <> '' and t.queue = b.queue and t.priority = b.priority
    order by t.turn limit 1
  ),
  0
) as turn
from unnest(:queue::text[], :priority::int[], :share::text[]) as b (queue, priority, share);

-- name: renew
-- Extend the leases of tasks that are their worker's still. Locks: its tasks, ascending.
update outlast.tasks t set lease_expires_at = outlast.now_us() + :lease::bigint, progress = b.progress
from (
  select t.run_uid, t.key, t.attempt from outlast.tasks t
  where t.owner = :worker::text order by t.run_uid, t.key for update
) mine
cross join lateral (
  select b.* from unnest(:uid::text[], :key::text[], :attempt::int[], :progress::bytea[])
    as b (uid, key, attempt, progress)
  where b.uid = mine.run_uid and b.key = mine.key and b.attempt = mine.attempt
) b
where t.run_uid = mine.run_uid and t.key = mine.key
returning t.run_uid, t.key, t.attempt, t.stop;

-- name: release
-- Take tasks back from their worker, which has not begun them; but those that are told to stop. Locks: its tasks,
-- ascending.
update outlast.tasks t set
  owner = null, claimed_at = null, lease_expires_at = null, progress = null, due_at = outlast.now_us() + :delay::bigint
from (
  select t.run_uid, t.key, t.attempt from outlast.tasks t
  join unnest(:uid::text[], :key::text[], :attempt::int[]) as b (uid, key, attempt)
    on t.run_uid = b.uid and t.key = b.key and t.attempt = b.attempt
  where t.owner = :worker::text and not t.stop order by t.run_uid, t.key for update of t
) mine
where t.run_uid = mine.run_uid and t.key = mine.key
returning t.run_uid, t.key, t.attempt;

-- name: complete
-- Delete tasks that are their worker's still, and send their outcomes to their runs, if those have not ended. What is
-- not answered is superseded. (`in` is a filter here: it locks all the runs before the first task goes.)
-- Locks: runs, ascending, then tasks, then inboxes (PROTOCOL F25).
with b as materialized (
  select * from unnest(:uid::text[], :key::text[], :attempt::int[], :payload::bytea[]) with ordinality
    as b (uid, key, attempt, payload, place)
), run as (
  select r.uid from outlast.runs r where r.uid = any (:uid::text[]) order by r.uid for no key update
), done as (
  delete from outlast.tasks t using b
  where t.run_uid = b.uid and t.key = b.key and t.attempt = b.attempt
    and coalesce(t.owner = :worker::text, false) and (b.uid in (select run.uid from run)) is true
  returning t.run_uid, t.key, t.attempt, b.payload, b.place
), raised as (
  update outlast.runs r set
    mail = r.mail + n.count,
    wake_at = case when r.owner is null then least(r.wake_at, outlast.now_us()) else r.wake_at end
  from (select done.run_uid, count(*) as count from done group by done.run_uid) n
  where r.uid = n.run_uid and r.live
  returning r.uid, r.mail - n.count as before
), told as (
  insert into outlast.inbox (run_uid, no, id, kind, payload, sent_at)
  select
    raised.uid, raised.before + row_number() over (partition by raised.uid order by done.place),
    done.key || '#' || done.attempt, :kind::text, done.payload, outlast.now_us()
  from raised join done on done.run_uid = raised.uid
)
select done.run_uid, done.key, done.attempt from done;

-- name: list_lapsed
-- Tasks whose lease lapsed, or whose worker is dead or gone; of the latter, one seek for each owner there is.
with recursive owners (id) as (
  (select t.owner from outlast.tasks t where t.owner is not null order by t.owner limit 1)
  union all
  select (select t.owner from outlast.tasks t where t.owner > o.id order by t.owner limit 1)
  from owners o where o.id is not null
), gone (id) as (
  select o.id from owners o
  where o.id is not null
    and not exists (select 1 from outlast.workers w where w.id = o.id and w.dead_at is null)
)
(
  select t.run_uid, t.key, t.attempt from outlast.tasks t
  where t.owner is not null and t.lease_expires_at <= (select outlast.now_us())
  order by t.lease_expires_at limit :limit::bigint
)
union
(
  select theirs.run_uid, theirs.key, theirs.attempt
  from gone cross join lateral (
    select t.run_uid, t.key, t.attempt from outlast.tasks t where t.owner = gone.id limit :limit::bigint
  ) theirs
  limit :limit::bigint
)
limit :limit::bigint;

-- name: delete_lapsed
-- Delete those attempts that have lapsed still. Their runs are locked already.
delete from outlast.tasks t
using unnest(:uid::text[], :key::text[], :attempt::int[]) as b (uid, key, attempt)
where t.run_uid = b.uid and t.key = b.key and t.attempt = b.attempt and coalesce(
  t.owner is not null and (
    t.lease_expires_at <= outlast.now_us()
    or not exists (select 1 from outlast.workers w where w.id = t.owner and w.dead_at is null)
  ), false
)
returning t.run_uid, t.key, t.attempt;

-- name: fetch_attempts
-- Which of these attempts are queued or running, or have their outcome in the inbox.
select b.key, b.attempt from unnest(:key::text[], :attempt::int[]) as b (key, attempt)
where exists (
  select 1 from outlast.tasks t where t.run_uid = :uid::text and t.key = b.key and t.attempt = b.attempt offset 0
) or exists (
  select 1 from outlast.inbox i where i.run_uid = :uid::text and i.id = b.key || '#' || b.attempt offset 0
);

-- name: list_tasks
-- A run's tasks.
select key, attempt, queue, function, due_at, owner, claimed_at, stop, coalesce(progress, '') as progress
from outlast.tasks where run_uid = :uid::text order by key;
