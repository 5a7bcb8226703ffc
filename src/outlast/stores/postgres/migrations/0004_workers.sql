-- What people want to know of a worker, and ask of it.

alter table outlast.workers
  add column renewed_at bigint not null default 0,  -- when its lease last was
  add column drain_asked_at bigint,                 -- when it was first asked to drain
  add column release text not null default '';      -- of outlast, that it runs
