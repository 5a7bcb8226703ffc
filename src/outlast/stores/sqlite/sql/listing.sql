-- name: list_runs
-- A page of runs, newest first; `$index` and `$filters` are put together from the query.
select $columns
from runs r indexed by $index join run_values v on v.uid = r.uid
where $filters
order by r.created_at desc, r.uid desc limit ?;

-- name: find_run
-- The run that holds an id.
select $columns from runs r join run_values v on v.uid = r.uid where r.id = ? and r.holds = 1;

-- name: find_uid
-- A run.
select $columns from runs r join run_values v on v.uid = r.uid where r.uid = ?;

-- name: count_open
-- How many runs have not ended, by status: a walk through the index of those, and no table.
select status, count(*) from runs indexed by runs_open
where status in ('queued', 'running', 'suspended', 'compensating') group by status;

-- name: list_waits
-- A page of open waits, oldest first; `$index` and `$filters` are put together from the query.
select w.run_uid, r.id, r.workflow, r.user_id, w.key, w.kind, w.name, w.opened_at, w.deadline, w.policy
from waits w indexed by $index cross join runs r on r.uid = w.run_uid
where $filters
order by w.opened_at, w.run_uid, w.key limit ?;
