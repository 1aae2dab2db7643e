-- The run journals of gateways that share a server: one row for each batch of lines, which has the same bytes as
-- in the file of a gateway that is alone.
CREATE TABLE journal (
    run_id      TEXT NOT NULL,
    first_seq   INTEGER NOT NULL,
    session_id  TEXT NOT NULL,
    lines       BLOB NOT NULL,
    written_at  REAL NOT NULL,
    PRIMARY KEY (run_id, first_seq)
) STRICT, WITHOUT ROWID;
CREATE INDEX journal_of_session ON journal (session_id);
