-- When the model has heard of the end of a background process. What ended before this was known is not told.
ALTER TABLE processes ADD COLUMN told_at REAL;
UPDATE processes SET told_at = ended_at;
