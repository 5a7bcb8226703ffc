-- Runs that are shared out: by limits of their workflow or queue, or among groups. Their priority is 10 more than it was
-- given as, so that nothing which looks for other runs, of whatever release, comes upon them.

alter table outlast.runs
  add column pool text collate "C",                      -- null: it is not shared out
  add column share text collate "C" not null default '';  -- the group it is of

create index runs_pooled on outlast.runs (queue, pool, priority, share, wake_at)
  where wake_at is not null and pool is not null;
-- For looks, which say so in these words: a claim would take it as well, and walk what waits of other groups.
create index runs_pooled_due on outlast.runs (queue, pool, priority, wake_at) where wake_at > -1 and pool is not null;
-- Those that have a place. What is counted by them says so in these words, and so no other index is taken for it.
create index runs_placed on outlast.runs (pool, share) where coalesce(owner, '') <> '' and pool is not null;
create index runs_placed_queue on outlast.runs (queue) where coalesce(owner, '') > '' and pool is not null;

-- When each group was last given a place. Forgotten after a while: who was not, comes first.
create table outlast.shares (
  pool text collate "C" not null,
  share text collate "C" not null,
  served_at bigint not null,
  primary key (pool, share)
);
create index shares_served on outlast.shares (pool, served_at);

create or replace view outlast.runs_v as
select
  r.uid, r.id, r.workflow, r.version, r.status, r.waiting_on, r.owner, r.queue, r.priority % 10 as priority,
  r.parent, r.root, r.user_id, r.recoveries, r.mail,
  outlast.to_time(r.wake_at) as due_at, outlast.to_time(r.deadline) as deadline,
  outlast.to_time(r.created_at) as created_at, outlast.to_time(r.started_at) as started_at,
  outlast.to_time(r.updated_at) as updated_at, outlast.to_time(r.finished_at) as finished_at,
  outlast.to_json(v.attributes) as attributes, v.trace, outlast.to_json(v.error) as error
from outlast.runs r join outlast.run_values v on v.uid = r.uid;
