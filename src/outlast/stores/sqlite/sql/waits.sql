-- name: insert_waits
-- Show waits as open.
insert into waits (run_uid, key, kind, name, opened_at, deadline, policy)
with rows (uid, key, kind, name, opened_at, deadline, policy) as (values :rows)
select * from rows where uid is not null
on conflict (run_uid, key) do update set
  kind = excluded.kind, name = excluded.name, opened_at = excluded.opened_at, deadline = excluded.deadline,
  policy = excluded.policy;

-- name: delete_waits
-- Close waits.
delete from waits where (run_uid, key) in (
  with rows (uid, key) as (values :rows) select * from rows
);
