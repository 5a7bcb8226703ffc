-- Rounds of a run (`ctx.continue_as_new`): which was the first, and which followed.

alter table runs add column origin text;  -- of a later round: the first
alter table runs add column next text;    -- of a round that went on: the one that followed; of the first: the last
