-- How much of a session its model is not sent any more, and what stands in its place. Nothing is taken out
-- of the transcript. A position is a turn, a place in it and a row: before `kept` the summary stands for the
-- rows, before `short` a tool's result is one line.
CREATE TABLE compactions (
    session_id   TEXT PRIMARY KEY REFERENCES sessions ON DELETE CASCADE,
    kept_turn    INTEGER NOT NULL,
    kept_place   INTEGER NOT NULL,
    kept_row     INTEGER NOT NULL,
    short_turn   INTEGER NOT NULL,
    short_place  INTEGER NOT NULL,
    short_row    INTEGER NOT NULL,
    summary      TEXT NOT NULL,
    todo         TEXT NOT NULL,
    wasted       INTEGER NOT NULL,
    not_before   REAL NOT NULL
) STRICT;
