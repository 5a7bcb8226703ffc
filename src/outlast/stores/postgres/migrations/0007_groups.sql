-- Runs that wait for a place, by group. In words of its own, so that a claim which says them reads it and no other: the index
-- of what is due begins with the same columns, and for each group all that waits would be read.

drop index outlast.runs_pooled;
create index runs_pooled on outlast.runs (queue, pool, priority, share, (coalesce(wake_at, -1)))
  where coalesce(wake_at, -1) > -1 and pool is not null;
