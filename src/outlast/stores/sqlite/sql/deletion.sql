-- name: find
-- Whether a run may be deleted: it ended, nobody owns it, and the run at its root has ended too; of a first round, the
-- last one.
select
  r.live = 0 and r.owner is null
  and not exists (select 1 from runs root where root.uid = r.root and root.live = 1)
  and not exists (select 1 from runs last where last.uid = r.next and r.origin is null and last.live = 1)
from runs r where r.uid = ?;

-- name: list_old
-- Runs that ended before an instant and may be deleted, longest ago first.
select r.uid from runs r indexed by runs_finished
where r.finished_at < :before and r.finished_at is not null
  and r.status in (select value from json_each(:statuses))
  and r.live = 0 and r.owner is null
  and not exists (select 1 from runs root where root.uid = r.root and root.live = 1)
  and not exists (select 1 from runs last where last.uid = r.next and r.origin is null and last.live = 1)
order by r.finished_at limit :limit;

-- name: delete_runs
-- Delete runs and, by a trigger, what is theirs; but for their journals, which are noted as to be deleted.
delete from runs where uid in (with rows (uid) as (values :rows) select * from rows);

-- name: list_deleted
-- Runs whose journal is to be deleted.
select uid from deleted limit ?;

-- name: forget_deleted
-- Nothing is left of them.
delete from deleted where uid in (with rows (uid) as (values :rows) select * from rows);
