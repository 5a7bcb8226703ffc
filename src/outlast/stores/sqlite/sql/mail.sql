-- name: fetch_recipients
-- What delivering needs of runs: whether they take messages, the number of their last one, and which round of theirs
-- is known as the last, if they went on.
with rows (uid) as (values :rows)
select
  r.uid, r.live, r.status, r.mail, r.id,
  case when r.next is not null then coalesce((select o.next from runs o where o.uid = r.origin), r.next) end
from rows b join runs r on r.uid = b.uid;

-- name: fetch_known
-- Which of these messages are in the inbox already.
with rows (uid, id) as (values :rows)
select i.run_uid, i.id, i.no from rows b join inbox i on i.run_uid = b.uid and i.id = b.id;

-- name: fetch_kept
-- Which of these messages were unread when their run ended, and are kept.
with rows (uid, id) as (values :rows)
select k.run_uid, k.id, k.no from rows b join kept k on k.run_uid = b.uid and k.id = b.id;

-- name: raise_mail
-- Count messages, and make runs due that nobody owns, for any deploy to look at: once for each recipient, before its
-- messages are added.
with rows (uid, count, reopens) as (values :rows)
update runs set
  mail = mail + b.count,
  live = max(live, b.reopens),
  unfit = '',
  wake_at = case when owner is null then min(coalesce(wake_at, clock.now), clock.now) else wake_at end
from rows b cross join (select ? as now) clock
where runs.uid = b.uid;

-- name: insert_messages
-- Put messages into inboxes, under the numbers that `mail` was raised to.
insert into inbox (run_uid, no, id, kind, payload, sent_at)
with rows (uid, no, id, kind, payload) as (values :rows)
select b.*, ? from rows b where b.uid is not null;

-- name: move_mail
-- Unread messages go on to the round that follows, under their numbers, but for the kinds that do not.
with rows (uid, next) as (values :rows)
update inbox set run_uid = b.next
from rows b cross join (select ? as kinds) staying
where inbox.run_uid = b.uid and inbox.kind not in (select value from json_each(staying.kinds));

-- name: count_on
-- The round that follows goes on counting, on the queue and in the pool of the one before.
with rows (uid, next) as (values :rows)
update runs set
  mail = before.mail, queue = before.queue, pool = before.pool, share = before.share,
  priority = runs.priority % 10 + case when before.pool is null then 0 else 10 end
from rows b join runs before on before.uid = b.uid where runs.uid = b.next;

-- name: delete_messages
-- Take consumed messages out. The join is there for its columns: they have a type, without which SQLite would look at
-- all messages of the run.
delete from inbox where (run_uid, no) in (
  with rows (uid, no) as (values :rows)
  select i.run_uid, i.no from rows b join inbox i on i.run_uid = b.uid and i.no = b.no
);

-- name: count_unread
-- How many messages wait, but no more than are asked for.
select count(*) from (select 1 from inbox where run_uid = ? limit ?);

-- name: oldest_unread
-- The number of the first message that waits: the others are behind it.
select min(no) from inbox where run_uid = ?;

-- name: read_inbox
-- A page of a run's messages, with the run's mail at the same moment. No row: no run. NULLs: no message.
select r.mail, i.no, i.id, i.kind, i.payload, i.sent_at
from runs r left join inbox i on i.run_uid = r.uid and i.no > :after
where r.uid = :uid
order by i.no limit :limit;
