-- What people want to know of a worker, and ask of it.

alter table workers add column renewed_at integer not null default 0;  -- when its lease last was
alter table workers add column drain_asked_at integer;                 -- when it was first asked to drain
alter table workers add column release text not null default '';       -- of outlast, that it runs
