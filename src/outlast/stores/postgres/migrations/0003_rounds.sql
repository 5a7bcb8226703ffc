-- Rounds of a run (`ctx.continue_as_new`): which was the first, and which followed.

alter table outlast.runs
  add column origin text collate "C",  -- of a later round: the first
  add column next text collate "C";    -- of a round that went on: the one that followed; of the first: the last
