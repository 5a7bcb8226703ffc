-- What people sent to a run and it had not read when it ended, of an end that a retry can take back. It waits here, and
-- not in the inbox, which workers look through for the mail of live runs.

create table outlast.kept (
  run_uid text collate "C" not null,
  no bigint not null,
  id text collate "C" not null,
  kind text collate "C" not null,
  payload bytea not null,
  sent_at bigint not null,
  primary key (run_uid, no)
) with (autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 1000);
