-- name: insert_entries
-- Add entries where the position is free and the mark before it is as their writer knew. A worker that lost its lease
-- adds nothing; a client has none. The mark is asked for entry by entry, so no statistics can make a join of it.
-- Locks: the worker's row, then journals, ascending.
with fence as (
  select id from outlast.workers where id = :worker::text and dead_at is null for key share
)
insert into outlast.journal (run_uid, seq, at, writer, mark, events)
select b.uid, b.seq, b.at, coalesce(:worker::text, 'client'), b.mark, b.events
from unnest(:uid::text[], :seq::int[], :at::bigint[], :mark::bigint[], :prev::bigint[], :events::bytea[])
  as b (uid, seq, at, mark, prev, events)
where (:worker::text is null or exists (select 1 from fence))
  and b.prev = (select j.mark from outlast.journal j where j.run_uid = b.uid and j.seq = b.seq - 1)
order by b.uid collate "C"
on conflict (run_uid, seq) do nothing;

-- name: fetch_marks
-- The marks that stand at these positions of journals.
select j.run_uid, j.seq, j.mark
from unnest(:uid::text[], :seq::int[]) as b (uid, seq)
join outlast.journal j on j.run_uid = b.uid and j.seq = b.seq;

-- name: read_journal
-- A page of a run's journal.
select seq, at, writer, mark, events from outlast.journal
where run_uid = :uid::text and seq > :after::int order by seq limit :limit::bigint;

-- name: delete_journal_page
-- Delete the last entries of a journal: what is late then finds no entry to land behind.
delete from outlast.journal
where run_uid = :uid::text
  and seq > (select max(j.seq) from outlast.journal j where j.run_uid = :uid::text) - :limit::int;
