-- name: save
-- Keep versions that are not kept yet, in one order, so that workers that start at once do not wait for each other in turn.
with new as (
  select * from unnest(
    :workflow::text[], :version::text[], :kind::text[], :status::text[], :plan::bytea[], :definition::bytea[],
    :created_by::text[]
  ) as row (workflow, version, kind, status, plan, definition, created_by)
)
insert into outlast.versions (workflow, version, kind, status, plan, definition, created_at, created_by)
select workflow, version, kind, status, plan, definition, outlast.now_us(), created_by
from new order by workflow collate "C", version collate "C"
on conflict (workflow, version) do nothing
returning 1;

-- name: find
-- One version.
select workflow, version, kind, status, plan, definition, created_at, created_by, decided_at, decided_by
from outlast.versions where workflow = :workflow::text and version = :version::text;

-- name: list
-- Versions, without what is large, the latest first.
select workflow, version, kind, status, ''::bytea, ''::bytea, created_at, created_by, decided_at, decided_by
from outlast.versions
where (:workflow::text is null or workflow = :workflow::text) and (:status::text is null or status = :status::text)
order by coalesce(decided_at, created_at) desc, workflow desc, version desc limit :limit::bigint;

-- name: decide
-- Activate or decline a version.
update outlast.versions set status = :status::text, decided_at = outlast.now_us(), decided_by = :by::text
where workflow = :workflow::text and version = :version::text and status <> :status::text
returning 1;
