-- Tables and indexes of the first release.
--
-- uids are TEXT: as BLOBs they saved 15 % of the file and nothing of the time, and cost a conversion at every touch.
-- `journal` has rowids: entries are appended, and only its index is written in the middle. WITHOUT ROWID, where each
-- run's entries lie together, wrote three times the pages for a group of runs, and took half the rows a second.

create table workers (
  id text primary key,
  host text not null,
  pid integer not null,
  queues text not null,     -- JSON
  functions text not null,  -- JSON
  deploy text not null,
  python text not null,
  schema integer not null,  -- number of the last migration its release knows
  started_at integer not null,
  expires_at integer not null,
  dead_at integer
) without rowid;

-- Narrow, and written only on start, claim, park, suspension, resumption and end: never for a step.
create table runs (
  no integer primary key,
  uid text not null unique,
  id text not null,
  holds integer not null,   -- 1: this run is the one that holds its id
  workflow text not null,
  version text not null,
  status text not null,
  waiting_on text not null default '',
  live integer not null,
  owner text,
  epoch integer not null,
  wake_at integer,
  deadline integer,
  mail integer not null default 0,
  priority integer not null,
  queue text not null,
  unfit text not null default '',  -- deploys that cannot serve it, each between two line feeds
  parent text,
  root text,
  user_id text,
  recoveries integer not null default 0,
  created_at integer not null,
  started_at integer,
  updated_at integer not null,
  finished_at integer,
  check (owner is null or wake_at is null)
);

create unique index runs_holder on runs (id) where holds = 1;
-- What is due, now or later, and nothing else: runs that wait for a message, are owned or have ended are not in it.
-- `unfit` is, so that a claim passes runs it cannot serve without a look at their rows.
create index runs_due on runs (queue, priority, wake_at, unfit) where wake_at is not null;
create index runs_owner on runs (owner) where owner is not null;
create index runs_suspended on runs (waiting_on) where status = 'suspended';
create index runs_finished on runs (finished_at) where finished_at is not null;
-- For lists, newest first. Completed runs are found by walking `runs_created`: nearly all are.
create index runs_created on runs (created_at, uid);
create index runs_workflow on runs (workflow, created_at, uid);
create index runs_open on runs (created_at, uid, status)
  where status in ('queued', 'running', 'suspended', 'compensating');
create index runs_fell on runs (status, created_at, uid)
  where status in ('failed', 'cancelled', 'compensated', 'compensation_failed');
create index runs_user on runs (user_id, created_at, uid) where user_id is not null;
create index runs_parent on runs (parent, created_at, uid) where parent is not null;

-- What a list shows and no claim needs. Input and output stand in the journal alone.
create table run_values (
  uid text primary key,
  attributes blob not null,
  trace text not null,
  error blob
) without rowid;

create table journal (
  run_uid text not null,
  seq integer not null,
  at integer not null,
  writer text not null,
  mark integer not null,
  events blob not null,
  unique (run_uid, seq)
);

create table inbox (
  run_uid text not null,
  no integer not null,
  id text not null,
  kind text not null,
  payload blob not null,
  sent_at integer not null,
  primary key (run_uid, no)
) without rowid;
create unique index inbox_id on inbox (run_uid, id);

create table tasks (
  run_uid text not null,
  key text not null,
  attempt integer not null,
  queue text not null,
  function text not null,
  arguments blob not null,
  details blob not null,
  due_at integer not null,
  priority integer not null,
  share text not null default '',     -- the group it is of
  turn integer not null default 0,    -- counts in its group, from the first of all that waited when it came
  owner text,
  claimed_at integer,
  lease_expires_at integer,
  stop integer not null default 0,
  progress blob,
  unique (run_uid, key)
);
create index tasks_due on tasks (queue, priority, due_at, function) where owner is null and stop = 0;
create index tasks_share on tasks (queue, priority, share, turn, due_at, function) where owner is null and stop = 0;
create index tasks_turn on tasks (queue, priority, turn) where owner is null and stop = 0 and share <> '';
create index tasks_held on tasks (queue, share) where owner is not null;
create index tasks_owner on tasks (owner, stop) where owner is not null;
create index tasks_lease on tasks (lease_expires_at) where owner is not null;

create table waits (
  run_uid text not null,
  key text not null,
  kind text not null,
  name text not null,
  opened_at integer not null,
  deadline integer,
  policy blob not null,
  primary key (run_uid, key)
) without rowid;
create index waits_opened on waits (opened_at, run_uid, key);
create index waits_name on waits (name, opened_at, run_uid, key);

-- Runs whose row is gone and whose journal is being deleted, a page at a time.
create table deleted (
  uid text primary key
) without rowid;

-- The end of a run, or what is left of it when its row goes: no message stays whose sender would wait for ever, nobody
-- starts its tasks, and who runs one is told. A trigger, because it costs the group commit no statement of its own.
create trigger runs_end after update of live on runs when new.live = 0 and old.live = 1
begin
  delete from inbox where run_uid = new.uid;
  delete from waits where run_uid = new.uid;
  delete from tasks where run_uid = new.uid and owner is null;
  update tasks set stop = 1 where run_uid = new.uid;
end;

create trigger runs_delete after delete on runs
begin
  delete from run_values where uid = old.uid;
  delete from inbox where run_uid = old.uid;
  delete from waits where run_uid = old.uid;
  delete from tasks where run_uid = old.uid;
  insert or ignore into deleted (uid) values (old.uid);
end;
