-- Runs that are shared out: by limits of their workflow or queue, or among groups. Their priority is 10 more than it was
-- given as, so that nothing which looks for other runs, of whatever release, comes upon them.

alter table runs add column pool text;                     -- NULL: it is not shared out
alter table runs add column share text not null default '';  -- the group it is of

create index runs_pooled on runs (queue, pool, priority, share, wake_at, unfit)
  where wake_at is not null and pool is not null;
create index runs_pooled_due on runs (queue, pool, priority, wake_at, unfit)
  where wake_at is not null and pool is not null;
-- Those that have a place.
create index runs_placed on runs (pool, share) where owner is not null and pool is not null;
create index runs_placed_queue on runs (queue) where owner is not null and pool is not null;

-- When each group was last given a place. Forgotten after a while: who was not, comes first.
create table shares (
  pool text not null,
  share text not null,
  served_at integer not null,
  primary key (pool, share)
) without rowid;
create index shares_served on shares (pool, served_at);
