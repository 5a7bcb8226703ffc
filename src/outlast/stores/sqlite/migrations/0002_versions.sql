-- What each version of a workflow was going to do, and who may start it; and which versions a worker serves.

create table versions (
  workflow text not null,
  version text not null,
  kind text not null,
  status text not null,
  plan blob not null,
  definition blob not null,
  created_at integer not null,
  created_by text not null,
  decided_at integer,
  decided_by text not null,
  primary key (workflow, version)
) without rowid;

alter table workers add column versions text not null default '[]';  -- JSON

-- What a deploy left to others: few, and none where there is one deploy.
create index runs_left on runs (status) where unfit <> '';
