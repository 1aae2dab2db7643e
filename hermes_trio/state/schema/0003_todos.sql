-- What the agent means to do in a session, as JSON: it reads and writes the list as a whole.
CREATE TABLE todos (
    session_id  TEXT PRIMARY KEY REFERENCES sessions ON DELETE CASCADE,
    items       TEXT NOT NULL
) STRICT;
