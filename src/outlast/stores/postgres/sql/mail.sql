-- name: send
-- Put a message from outside into the inbox of a live run: the row is locked and `mail` raised first, and its new value
-- is the message's number. No row: it is to be looked at closer. Locks: the run's row, then its inbox.
with raised as (
  update outlast.runs r set
    mail = r.mail + 1, unfit = '{}',
    wake_at = case when r.owner is null then least(r.wake_at, outlast.now_us()) else r.wake_at end
  where r.uid = :uid::text and r.live
    and not exists (select 1 from outlast.inbox i where i.run_uid = :uid::text and i.id = :id::text)
    and r.mail - coalesce(
      (select i.no - 1 from outlast.inbox i where i.run_uid = :uid::text order by i.no limit 1), r.mail
    ) < :room::bigint
  returning r.uid, r.mail
)
insert into outlast.inbox (run_uid, no, id, kind, payload, sent_at)
select raised.uid, raised.mail, :id::text, :kind::text, :payload::bytea, outlast.now_us() from raised
returning no;

-- name: fetch_known
-- Which of these messages are in the inbox already.
select i.run_uid, i.id, i.no
from unnest(:uid::text[], :id::text[]) as b (uid, id) join outlast.inbox i on i.run_uid = b.uid and i.id = b.id;

-- name: fetch_kept
-- Which of these messages were unread when their run ended, and are kept.
select k.run_uid, k.id, k.no
from unnest(:uid::text[], :id::text[]) as b (uid, id) join outlast.kept k on k.run_uid = b.uid and k.id = b.id;

-- name: bring_back
-- Runs are live again: what was kept of their inboxes is there again, under its numbers. Their rows are locked.
with back as (
  delete from outlast.kept where run_uid = any (:uids::text[]) returning run_uid, no, id, kind, payload, sent_at
)
insert into outlast.inbox (run_uid, no, id, kind, payload, sent_at)
select back.run_uid, back.no, back.id, back.kind, back.payload, back.sent_at from back;

-- name: raise_mail
-- Count messages, and make runs due that nobody owns, for any deploy to look at: once for each recipient, before its
-- messages are added. The rows are locked already.
update outlast.runs r set
  mail = r.mail + b.count,
  live = r.live or b.reopens,
  unfit = '{}',
  wake_at = case when r.owner is null then least(r.wake_at, clock.now) else r.wake_at end
from unnest(:uid::text[], :count::bigint[], :reopens::boolean[]) as b (uid, count, reopens)
cross join (select outlast.now_us() as now) clock
where r.uid = b.uid;

-- name: insert_messages
-- Put messages into inboxes, under the numbers that `mail` was raised to.
insert into outlast.inbox (run_uid, no, id, kind, payload, sent_at)
select b.uid, b.no, b.id, b.kind, b.payload, clock.now
from unnest(:uid::text[], :no::bigint[], :id::text[], :kind::text[], :payload::bytea[])
  as b (uid, no, id, kind, payload)
cross join (select outlast.now_us() as now) clock;

-- name: find_last
-- Which round is known as the last of runs that went on.
select r.uid, coalesce((select o.next from outlast.runs o where o.uid = r.origin), r.next)
from outlast.runs r where r.uid = any (:uids::text[]) and r.next is not null;

-- name: move_mail
-- Unread messages go on to the round that follows, under their numbers, but for the kinds that do not; and that round
-- goes on counting, on the queue and in the pool of the one before. The row of the one that ends is locked, and was in another
-- statement: so this sees all.
with b as (
  select * from unnest(:uid::text[], :next::text[]) as b (uid, next)
), counted as (
  update outlast.runs r set
    mail = before.mail, queue = before.queue, pool = before.pool, share = before.share,
    priority = r.priority % 10 + case when before.pool is null then 0 else 10 end
  from b join outlast.runs before on before.uid = b.uid
  where r.uid = b.next
)
update outlast.inbox i set run_uid = b.next
from b where i.run_uid = b.uid and i.kind <> all (:staying::text[]);

-- name: delete_messages
-- Take consumed messages out.
delete from outlast.inbox i
using unnest(:uid::text[], :no::bigint[]) as b (uid, no)
where i.run_uid = b.uid and i.no = b.no;

-- name: count_unread
-- How many messages wait, but no more than are asked for.
select count(*) as unread from (select 1 from outlast.inbox where run_uid = :uid::text limit :limit::bigint) i;

-- name: read_inboxes
-- Pages of several runs' messages, each with its run's mail at the same moment. No row: no run. NULLs: no message.
select b.number, r.mail, i.no, i.id, i.kind, i.payload, i.sent_at
from unnest(:uid::text[], :after::bigint[], :limit::bigint[]) with ordinality as b (uid, after, most, number)
cross join lateral (select uid, mail from outlast.runs where uid = b.uid offset 0) r
left join lateral (
  select no, id, kind, payload, sent_at from outlast.inbox where run_uid = r.uid and no > b.after order by no limit b.most
) i on true;
