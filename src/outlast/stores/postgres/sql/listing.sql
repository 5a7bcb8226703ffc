-- name: list_runs
-- A page of runs, newest first; `$filters` and `$limit` are put together from the query.
select $columns
from outlast.runs r join outlast.run_values v on v.uid = r.uid
where $filters
order by r.created_at desc, r.uid desc limit $limit;

-- name: find_run
-- The run that holds an id.
select $columns from outlast.runs r join outlast.run_values v on v.uid = r.uid where r.id = :id::text and r.holds;

-- name: find_uid
-- A run.
select $columns from outlast.runs r join outlast.run_values v on v.uid = r.uid where r.uid = :uid::text;

-- name: count_open
-- How many runs have not ended, by status: a walk through the index of those.
select status, count(*) from outlast.runs
where status in ('queued', 'running', 'suspended', 'compensating') group by status;

-- name: list_waits
-- A page of open waits, oldest first; `$filters` are put together from the query.
select w.run_uid, r.id, r.workflow, r.user_id, w.key, w.kind, w.name, w.opened_at, w.deadline, w.policy
from outlast.waits w join outlast.runs r on r.uid = w.run_uid
where $filters
order by w.opened_at, w.run_uid, w.key limit :limit::bigint;
