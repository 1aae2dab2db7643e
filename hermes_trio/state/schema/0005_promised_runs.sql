-- What the run that answers a message is called, where its door has said so before it began.
ALTER TABLE inbox ADD COLUMN run_id TEXT;
CREATE INDEX inbox_by_run ON inbox (run_id) WHERE run_id IS NOT NULL;
