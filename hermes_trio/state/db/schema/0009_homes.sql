-- lives-with: 0008
-- The home of a life: an id that is kept in it, which a copy of the home does not have. NULL in the rows of an
-- older version, for which the name stands. A name belongs to one life at a time.
ALTER TABLE lives ADD COLUMN home TEXT;
-- Two homes of one name could end each other, and both begin in one moment: the later one stays.
UPDATE lives SET over_at = begun_at, ended_by = life WHERE over_at IS NULL AND EXISTS (
    SELECT 1 FROM lives AS later WHERE later.node = lives.node AND later.over_at IS NULL
    AND (later.begun_at > lives.begun_at OR later.begun_at = lives.begun_at AND later.life > lives.life)
);
CREATE UNIQUE INDEX living_names ON lives (node) WHERE over_at IS NULL;
