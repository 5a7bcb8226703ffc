-- What each version of a workflow was going to do, and who may start it; and which versions a worker serves.

create table outlast.versions (
  workflow text collate "C" not null,
  version text collate "C" not null,
  kind text not null,
  status text collate "C" not null,
  plan bytea not null,
  definition bytea not null,
  created_at bigint not null,
  created_by text not null,
  decided_at bigint,
  decided_by text not null default '',
  primary key (workflow, version)
);

alter table outlast.workers add column versions text[] not null default '{}';

-- What a deploy left to others: few, and none where there is one deploy.
create index runs_left on outlast.runs (status) where unfit <> '{}';
