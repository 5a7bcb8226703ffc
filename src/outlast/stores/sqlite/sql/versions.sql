-- name: save
-- Keep a version, if it is not kept yet.
insert into versions (workflow, version, kind, status, plan, definition, created_at, created_by, decided_by)
values (:workflow, :version, :kind, :status, :plan, :definition, :now, :created_by, '')
on conflict (workflow, version) do nothing;

-- name: find
-- One version.
select workflow, version, kind, status, plan, definition, created_at, created_by, decided_at, decided_by
from versions where workflow = ? and version = ?;

-- name: list
-- Versions, without what is large, the latest first.
select workflow, version, kind, status, x'', x'', created_at, created_by, decided_at, decided_by
from versions
where (:workflow is null or workflow = :workflow) and (:status is null or status = :status)
order by coalesce(decided_at, created_at) desc, workflow desc, version desc limit :limit;

-- name: decide
-- Activate or decline a version.
update versions set status = :status, decided_at = :now, decided_by = :by
where workflow = :workflow and version = :version and status <> :status;
