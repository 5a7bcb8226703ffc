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
create index runs_owner on outlast.runs (owner, uid) where owner is not null;
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
  share text collate "C" not null default '',  -- the group it is of
  turn bigint not null default 0,              -- counts in its group, from the first of all that waited when it came
  owner text collate "C",
  claimed_at bigint,
  lease_expires_at bigint,
  stop boolean not null default false,
  progress bytea,
  primary key (run_uid, key)
) with (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 1000);
create index tasks_due on outlast.tasks (queue, priority, due_at) where owner is null and not stop;
create index tasks_share on outlast.tasks (queue, priority, share, turn, due_at) where owner is null and not stop;
create index tasks_turn on outlast.tasks (queue, priority, turn) where owner is null and not stop and share <> '';
-- What is counted by it says so in these words, and so no other index is taken for it.
create index tasks_held on outlast.tasks (queue, share) where coalesce(owner, '') <> '';
create index tasks_owner on outlast.tasks (owner, stop) where owner is not null;
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

-- --- for people who ask in SQL ---------------------------------------------------------------------------------------

create function outlast.to_time(us bigint) returns timestamptz language sql immutable parallel safe
as 'select to_timestamp(us / 1000000.0)';

-- JSON as it was stored. The character NUL, which PostgreSQL's texts cannot hold, is shown as U+FFFD.
create function outlast.to_json(bytes bytea) returns jsonb language sql immutable parallel safe
as $$ select replace(convert_from(bytes, 'UTF8'), '\u0000', '\ufffd')::jsonb $$;

-- Runs, with instants as times. A hot run's row is as its owner took it: what it does now is in its journal.
create view outlast.runs_v as
select
  r.uid, r.id, r.workflow, r.version, r.status, r.waiting_on, r.owner, r.queue, r.priority, r.parent, r.root,
  r.user_id, r.recoveries, r.mail,
  outlast.to_time(r.wake_at) as due_at, outlast.to_time(r.deadline) as deadline,
  outlast.to_time(r.created_at) as created_at, outlast.to_time(r.started_at) as started_at,
  outlast.to_time(r.updated_at) as updated_at, outlast.to_time(r.finished_at) as finished_at,
  outlast.to_json(v.attributes) as attributes, v.trace, outlast.to_json(v.error) as error
from outlast.runs r join outlast.run_values v on v.uid = r.uid;

-- The events of journals, one row for each, in the order of (seq, place). An entry that begins with no [ was encrypted
-- or compressed by a codec, and shows none.
create view outlast.events_v as
select
  j.run_uid as uid, r.id, r.workflow, j.seq, e.place, e.event ->> 'event' as kind,
  outlast.to_time(coalesce((e.event ->> 'at')::bigint, j.at)) as at,
  e.event ->> 'key' as key, j.writer, e.event
from outlast.journal j
join outlast.runs r on r.uid = j.run_uid
cross join lateral jsonb_array_elements(
  case when substring(j.events from 1 for 1) = '[' then outlast.to_json(j.events) else '[]' end
) with ordinality as e (event, place);

-- Steps of runs, each as its last event left it. (After a retry of a failed run `outlast show` knows more: which steps
-- are begun anew.)
create view outlast.steps_v as
select
  e.uid, e.id, e.workflow, e.key,
  (array_agg(e.event ->> 'function' order by e.seq desc, e.place desc)
    filter (where e.kind in ('StepStarted', 'StepReused')))[1] as function,
  (array_agg(
    case e.kind
      when 'StepStarted' then case e.event ->> 'attempt' when '0' then 'pending' else 'started' end
      when 'AttemptStarted' then 'started'
      when 'StepLost' then 'retrying'
      when 'StepCancelled' then 'cancelled'
      when 'StepSettled' then 'cancelled'
      when 'StepFailed' then case when e.event ? 'retry_at' then 'retrying' else 'failed' end
      else 'succeeded'
    end
    order by e.seq desc, e.place desc
  ))[1] as status,
  max(coalesce((e.event ->> 'attempt')::integer, 1)) as attempts,
  min(e.at) as started_at,
  max(e.at) filter (where e.kind in ('StepSucceeded', 'StepFailed', 'StepCancelled')) as ended_at,
  (array_agg(e.event -> 'value' order by e.seq desc, e.place desc)
    filter (where e.kind = 'StepSucceeded'))[1] as result,
  (array_agg(e.event -> 'error' order by e.seq desc, e.place desc)
    filter (where e.kind = 'StepFailed'))[1] as error
from outlast.events_v e
where e.kind in (
  'StepStarted', 'StepReused', 'AttemptStarted', 'StepLost', 'StepCancelled', 'StepSettled', 'StepFailed',
  'StepSucceeded'
)
group by e.uid, e.id, e.workflow, e.key;
