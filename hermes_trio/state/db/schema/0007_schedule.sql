-- Messages that come at their time, into the chat where they were ordered.
CREATE TABLE jobs (
    job_id      TEXT PRIMARY KEY,
    source      TEXT NOT NULL,      -- JSON: the chat, and the person who ordered it
    platform    TEXT NOT NULL,
    account     TEXT NOT NULL,
    chat_id     TEXT NOT NULL,
    text        TEXT NOT NULL,
    rule        TEXT NOT NULL,      -- as a person wrote it, in the form that is read back
    zone        TEXT NOT NULL,
    missed      TEXT NOT NULL,      -- once, all or skip
    next_at     REAL,               -- when it is due; NULL: never again
    paused      INTEGER NOT NULL DEFAULT 0,
    created_at  REAL NOT NULL,
    last_at     REAL                -- the due time of the last message
) STRICT;
CREATE INDEX jobs_due ON jobs (next_at) WHERE next_at IS NOT NULL AND NOT paused;
CREATE INDEX jobs_of_chat ON jobs (platform, account, chat_id);
