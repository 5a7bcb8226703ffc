-- name: insert_waits
-- Show waits as open.
insert into outlast.waits (run_uid, key, kind, name, opened_at, deadline, policy)
select b.uid, b.key, b.kind, b.name, b.opened_at, b.deadline, b.policy
from unnest(
  :uid::text[], :key::text[], :kind::text[], :name::text[], :opened_at::bigint[], :deadline::bigint[], :policy::bytea[]
) as b (uid, key, kind, name, opened_at, deadline, policy)
order by b.uid collate "C", b.key collate "C"
on conflict (run_uid, key) do update set
  kind = excluded.kind, name = excluded.name, opened_at = excluded.opened_at, deadline = excluded.deadline,
  policy = excluded.policy;

-- name: delete_waits
-- Close waits.
delete from outlast.waits w
using unnest(:uid::text[], :key::text[]) as b (uid, key)
where w.run_uid = b.uid and w.key = b.key;
