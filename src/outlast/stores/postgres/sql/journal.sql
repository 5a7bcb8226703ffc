-- name: insert_entries
-- Add entries where the mark before them is as their writer knew. A worker that lost its lease adds nothing; a client
-- has none. A position that is taken breaks a constraint, and then nothing happens (`on conflict` would cost as much
-- again as the insert). The mark is asked for entry by entry, so no statistics can make a join of it.
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
order by b.uid collate "C";

-- name: insert_entry
-- As `insert_entries`, for one of a worker: a lone run waits for each of its steps.
insert into outlast.journal (run_uid, seq, at, writer, mark, events)
select :uid::text, :seq::int, :at::bigint, me.id, :mark::bigint, :events::bytea
from (select id from outlast.workers where id = :worker::text and dead_at is null for key share) me
where :prev::bigint = (select j.mark from outlast.journal j where j.run_uid = :uid::text and j.seq = :seq::int - 1);

-- name: fetch_marks
-- The marks that stand at these positions of journals.
select j.run_uid, j.seq, j.mark
from unnest(:uid::text[], :seq::int[]) as b (uid, seq)
join outlast.journal j on j.run_uid = b.uid and j.seq = b.seq;

-- name: read_journal
-- A page of a run's journal.
select seq, at, writer, mark, events from outlast.journal
where run_uid = :uid::text and seq > :after::int order by seq limit :limit::bigint;

-- name: read_journals
-- The first pages of several runs' journals, each in its order.
select b.uid, j.seq, j.at, j.writer, j.mark, j.events
from unnest(:uid::text[]) as b (uid)
cross join lateral (
  select seq, at, writer, mark, events from outlast.journal where run_uid = b.uid order by seq limit :limit::bigint
) j;

-- name: delete_journal_page
-- Delete the last entries of a journal: what is late then finds no entry to land behind.
delete from outlast.journal
where run_uid = :uid::text
  and seq > (select max(j.seq) from outlast.journal j where j.run_uid = :uid::text) - :limit::int;
