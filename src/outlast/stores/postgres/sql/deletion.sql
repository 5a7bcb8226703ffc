-- name: find
-- Whether a run may be deleted: it ended, nobody owns it, and the run at its root has ended too; of a first round, the
-- last one. Locks its row.
select
  not r.live and r.owner is null
  and not exists (select 1 from outlast.runs root where root.uid = r.root and root.live)
  and not exists (select 1 from outlast.runs last where last.uid = r.next and r.origin is null and last.live) as may_go
from outlast.runs r where r.uid = :uid::text for update;

-- name: list_old
-- Runs that ended before an instant and may be deleted, longest ago first; locked, but for those that others hold.
select r.uid from outlast.runs r
where r.finished_at < :before::bigint and r.status = any (:statuses::text[])
  and not r.live and r.owner is null
  and not exists (select 1 from outlast.runs root where root.uid = r.root and root.live)
  and not exists (select 1 from outlast.runs last where last.uid = r.next and r.origin is null and last.live)
order by r.finished_at limit :limit::bigint for update of r skip locked;

-- name: delete_runs
-- Delete runs and what is theirs; but for their journals, which are noted as to be deleted. Their rows are locked.
with row as (
  delete from outlast.runs where uid = any (:uids::text[])
), value as (
  delete from outlast.run_values where uid = any (:uids::text[])
), letter as (
  delete from outlast.inbox where run_uid = any (:uids::text[])
), kept as (
  delete from outlast.kept where run_uid = any (:uids::text[])
), door as (
  delete from outlast.waits where run_uid = any (:uids::text[])
), task as (
  delete from outlast.tasks where run_uid = any (:uids::text[])
)
insert into outlast.deleted (uid) select unnest(:uids::text[]) on conflict do nothing;

-- name: list_deleted
-- Runs whose journal is to be deleted, and that nobody else is at.
select uid from outlast.deleted limit :limit::bigint for update skip locked;

-- name: forget_deleted
-- Nothing is left of them.
delete from outlast.deleted where uid = any (:uids::text[]);
