-- What people sent to a run and it had not read when it ended, of an end that a retry can take back. It waits here, and
-- not in the inbox, which workers look through for the mail of live runs.

create table kept (
  run_uid text not null,
  no integer not null,
  id text not null,
  kind text not null,
  payload blob not null,
  sent_at integer not null,
  primary key (run_uid, no)
) without rowid;

drop trigger runs_end;
create trigger runs_end after update of live on runs when new.live = 0 and old.live = 1
begin
  insert into kept (run_uid, no, id, kind, payload, sent_at)
  select run_uid, no, id, kind, payload, sent_at from inbox
  where run_uid = new.uid and kind in ('signal', 'decision', 'resume')
    and (new.status = 'failed' or (new.status = 'cancelled' and new.parent is not null));
  delete from inbox where run_uid = new.uid;
  delete from waits where run_uid = new.uid;
  delete from tasks where run_uid = new.uid and owner is null;
  update tasks set stop = 1 where run_uid = new.uid;
end;

-- It is live again, whoever made it so: it reads then what it had not read.
create trigger runs_reopen after update of live on runs when new.live = 1 and old.live = 0
begin
  insert into inbox (run_uid, no, id, kind, payload, sent_at)
  select run_uid, no, id, kind, payload, sent_at from kept where run_uid = new.uid;
  delete from kept where run_uid = new.uid;
end;

drop trigger runs_delete;
create trigger runs_delete after delete on runs
begin
  delete from run_values where uid = old.uid;
  delete from inbox where run_uid = old.uid;
  delete from kept where run_uid = old.uid;
  delete from waits where run_uid = old.uid;
  delete from tasks where run_uid = old.uid;
  insert or ignore into deleted (uid) values (old.uid);
end;
