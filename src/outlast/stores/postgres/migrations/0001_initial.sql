-- Tables and indexes of the first release. The schema is written `outlast` here; a store may have another.
--
-- Texts are compared byte by byte (collation "C"): so every server sorts alike, and rows are locked in one order. uids
-- are text, as in all backends; instants are µs since the epoch, and the views at the end show them as times.

-- The store's clock. Volatile on purpose: a time read before a wait for a lock would be old.
create function outlast.now_us() returns bigint language sql volatile parallel safe
as 'select (extract(epoch from clock_timestamp()) * 1000000)::bigint';

create table outlast.workers (
  id text collate "C" primary key,
  host text not null,
  pid bigint not null,
  queues text[] not null,
  functions text[] not null,
  deploy text not null,
  python text not null,
  schema integer not null,        -- number of the last migration its release knows
  started_at bigint not null,
  expires_at bigint not null,
  dead_at bigint
) with (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.01);

-- Narrow, and written only on start, claim, park, suspension, resumption and end: never for a step.
create table outlast.runs (
  uid text collate "C" primary key,
  id text collate "C" not null,
  holds boolean not null,         -- this run is the one that holds its id
  workflow text collate "C" not null,
  version text not null,
  status text collate "C" not null,
  waiting_on text collate "C" not null default '',
  live boolean not null,
  owner text collate "C",
  epoch bigint not null,
  wake_at bigint,
  deadline bigint,
  mail bigint not null default 0,
  priority integer not null,
  queue text collate "C" not null,
  unfit text[] not null default '{}',  -- deploys that cannot serve it
  parent text collate "C",
  root text collate "C",
  user_id text collate "C",
  recoveries integer not null default 0,
  created_at bigint not null,
  started_at bigint,
  updated_at bigint not null,
  finished_at bigint,
  check (owner is null or wake_at is null)
) with (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.01, autovacuum_analyze_scale_factor = 0.02);

create unique index runs_holder on outlast.runs (id) where holds;
-- What is due, now or later, and nothing else: runs that wait for a message, are owned or have ended are not in it.
create index runs_due on outlast.runs (queue, priority, wake_at) where wake_at is not null;
create index runs_owner on outlast.runs (owner) where owner is not null;
-- A hash: what a run waits for may be longer than a B-tree's entries can be.
create index runs_suspended on outlast.runs using hash (waiting_on) where status = 'suspended';
create index runs_finished on outlast.runs (finished_at) where finished_at is not null;
-- For lists, newest first. Completed runs are found by walking `runs_created`: nearly all are.
create index runs_created on outlast.runs (created_at, uid);
create index runs_workflow on outlast.runs (workflow, created_at, uid);
create index runs_open on outlast.runs (created_at, uid, status)
  where status in ('queued', 'running', 'suspended', 'compensating');
create index runs_fell on outlast.runs (status, created_at, uid)
  where status in ('failed', 'cancelled', 'compensated', 'compensation_failed');
create index runs_user on outlast.runs (user_id, created_at, uid) where user_id is not null;
create index runs_parent on outlast.runs (parent, created_at, uid) where parent is not null;

-- What a list shows and no claim needs. Input and output stand in the journal alone.
create table outlast.run_values (
  uid text collate "C" primary key,
  attributes bytea not null,
  trace text not null,
  error bytea
);

create table outlast.journal (
  run_uid text collate "C" not null,
  seq integer not null,
  at bigint not null,
  writer text not null,
  mark bigint not null,
  events bytea not null,
  primary key (run_uid, seq)
);

create table outlast.inbox (
  run_uid text collate "C" not null,
  no bigint not null,
  id text collate "C" not null,
  kind text not null,
  payload bytea not null,
  sent_at bigint not null,
  primary key (run_uid, no)
) with (autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 1000);
create unique index inbox_id on outlast.inbox (run_uid, id);

create table outlast.tasks (
  run_uid text collate "C" not null,
  key text collate "C" not null,
  attempt integer not null,
  queue text collate "C" not null,
  function text collate "C" not null,
  arguments bytea not null,
  details bytea not null,
  due_at bigint not null,
  priority integer not null,
  owner text collate "C",
  claimed_at bigint,
  lease_expires_at bigint,
  stop boolean not null default false,
  progress bytea,
  primary key (run_uid, key)
) with (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 1000);
create index tasks_due on outlast.tasks (queue, priority, due_at) where owner is null and not stop;
create index tasks_owner on outlast.tasks (owner) where owner is not null;
create index tasks_lease on outlast.tasks (lease_expires_at) where owner is not null;

create table outlast.waits (
  run_uid text collate "C" not null,
  key text collate "C" not null,
  kind text not null,
  name text not null,
  opened_at bigint not null,
  deadline bigint,
  policy bytea not null,
  primary key (run_uid, key)
);
create index waits_opened on outlast.waits (opened_at, run_uid, key);
create index waits_name on outlast.waits (name, opened_at, run_uid, key);

-- Runs whose row is gone and whose journal is being deleted, a page at a time.
create table outlast.deleted (
  uid text collate "C" primary key
);
