-- name: insert_entries
-- Add a worker's entries where the position is free and the mark before it is as their writer knew; `prev` is NULL for
-- the first entry of a run that starts. A worker that lost its lease adds nothing.
insert into journal (run_uid, seq, at, writer, mark, events)
with rows (uid, seq, at, mark, events, prev) as (values :rows)
select b.uid, b.seq, b.at, ?, b.mark, b.events
from rows b
where b.uid is not null
  and exists (select 1 from workers where id = ? and dead_at is null)
  and (
    b.prev is null
    or exists (select 1 from journal j where j.run_uid = b.uid and j.seq = b.seq - 1 and j.mark = b.prev)
  )
on conflict (run_uid, seq) do nothing;

-- name: insert_entry
-- As `insert_entries`, for one that is not a run's first: a lone run waits for each of its steps.
insert into journal (run_uid, seq, at, mark, events, writer)
select ?, ?, ?, ?, ?, ?
where exists (select 1 from journal where run_uid = ? and seq = ? and mark = ?)
  and exists (select 1 from workers where id = ? and dead_at is null)
on conflict (run_uid, seq) do nothing;

-- name: insert_clients_entries
-- Add entries that no worker writes: starts, and entries of runs that nobody owns.
insert into journal (run_uid, seq, at, writer, mark, events)
with rows (uid, seq, at, mark, events, prev) as (values :rows)
select b.uid, b.seq, b.at, ?, b.mark, b.events
from rows b
where b.uid is not null
  and (
    b.prev is null
    or exists (select 1 from journal j where j.run_uid = b.uid and j.seq = b.seq - 1 and j.mark = b.prev)
  )
on conflict (run_uid, seq) do nothing;

-- name: fetch_marks
-- The marks that stand at these positions of journals.
with rows (uid, seq) as (values :rows)
select j.run_uid, j.seq, j.mark
from rows b join journal j on j.run_uid = b.uid and j.seq = b.seq;

-- name: read_journal
-- A page of a run's journal.
select seq, at, writer, mark, events from journal where run_uid = ? and seq > ? order by seq limit ?;

-- name: delete_journal_page
-- Delete the last entries of a journal: what is late then finds no entry to land behind.
delete from journal where rowid in (select rowid from journal where run_uid = ? order by seq desc limit ?);
