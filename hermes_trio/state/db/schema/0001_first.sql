-- What the gateway must not forget. Times are seconds since 1970; everything a platform or a person
-- says is text; JSON stands only where nothing ever asks for a part of it.

CREATE TABLE meta (
    name  TEXT PRIMARY KEY,
    value TEXT NOT NULL
) STRICT;

-- A conversation. The key says which chat it is, the id which transcript: a reset ends the row and
-- begins another one with the same key.
CREATE TABLE sessions (
    session_id          TEXT PRIMARY KEY,
    session_key         TEXT NOT NULL,
    platform            TEXT,
    chat_type           TEXT NOT NULL,
    display_name        TEXT,
    origin              TEXT,
    created_at          REAL NOT NULL,
    updated_at          REAL NOT NULL,
    ended_at            REAL,
    end_reason          TEXT,
    mark                TEXT CHECK (mark IN ('resume_pending', 'suspended')),
    mark_reason         TEXT,
    marked_at           REAL,
    auto_reset_reason   TEXT,
    reset_had_activity  INTEGER NOT NULL DEFAULT 0,
    cuts_forgiven       INTEGER NOT NULL DEFAULT 0,
    model_override      TEXT,
    input_tokens        INTEGER NOT NULL DEFAULT 0,
    output_tokens       INTEGER NOT NULL DEFAULT 0,
    cache_read_tokens   INTEGER NOT NULL DEFAULT 0,
    cache_write_tokens  INTEGER NOT NULL DEFAULT 0,
    last_prompt_tokens  INTEGER NOT NULL DEFAULT 0,
    cost_usd            REAL,
    prompt              TEXT,
    CHECK ((ended_at IS NULL) = (end_reason IS NULL)),
    CHECK (mark IS NOT NULL OR (mark_reason IS NULL AND marked_at IS NULL)),
    CHECK (mark IS NULL OR ended_at IS NULL)
) STRICT;
CREATE UNIQUE INDEX sessions_one_open_per_key ON sessions (session_key) WHERE ended_at IS NULL;
CREATE INDEX sessions_by_use ON sessions (updated_at);
CREATE INDEX sessions_marked ON sessions (mark) WHERE mark IS NOT NULL;

-- One run of the agent. No end: it runs, or it was cut. The first end wins.
CREATE TABLE turns (
    turn_id            INTEGER PRIMARY KEY AUTOINCREMENT,
    run_id             TEXT NOT NULL UNIQUE,
    session_id         TEXT NOT NULL REFERENCES sessions ON DELETE CASCADE,
    life               TEXT NOT NULL,
    started_at         REAL NOT NULL,
    requested_at       REAL,
    stopped_at         REAL,
    resumes            INTEGER REFERENCES turns ON DELETE SET NULL,
    ended_at           REAL,
    outcome            TEXT CHECK (outcome IN ('answered', 'stopped', 'superseded', 'reset', 'timed_out',
                                               'failed', 'cut', 'unstarted')),
    reason             TEXT,
    recovery           TEXT CHECK (recovery IN ('arriving', 'recovered', 'no_output', 'given_up',
                                                'completed', 'cancelled', 'failed')),
    recovery_note      TEXT,
    recovery_attempts  INTEGER NOT NULL DEFAULT 0,
    recovery_since     REAL,
    recovery_bytes     INTEGER NOT NULL DEFAULT 0,
    CHECK ((ended_at IS NULL) = (outcome IS NULL))
) STRICT;
CREATE UNIQUE INDEX turns_one_open_per_session ON turns (session_id) WHERE ended_at IS NULL;
CREATE INDEX turns_by_session ON turns (session_id, turn_id);
CREATE INDEX turns_resuming ON turns (resumes) WHERE resumes IS NOT NULL;

CREATE TABLE messages (
    message_id    INTEGER PRIMARY KEY AUTOINCREMENT,
    session_id    TEXT NOT NULL REFERENCES sessions ON DELETE CASCADE,
    turn_id       INTEGER REFERENCES turns ON DELETE CASCADE,
    place         INTEGER NOT NULL,
    role          TEXT NOT NULL CHECK (role IN ('user', 'assistant', 'tool', 'system')),
    content       TEXT NOT NULL,
    created_at    REAL NOT NULL,
    reasoning     TEXT,
    tool_calls    TEXT,
    finish        TEXT,
    tool_call_id  TEXT,
    tool_name     TEXT,
    status        TEXT,
    cards         TEXT,
    recovered     INTEGER NOT NULL DEFAULT 0,
    opaque        TEXT
) STRICT;
CREATE INDEX messages_in_order ON messages (session_id, turn_id, place, message_id);
CREATE INDEX messages_of_turn ON messages (turn_id);

-- Search over what people and the agent said to each other. The index keeps no text of its own; the view
-- says what is in it, also when it has to be made again.
CREATE VIEW said AS SELECT message_id, content FROM messages WHERE role IN ('user', 'assistant');
CREATE VIRTUAL TABLE messages_text USING fts5 (content, content = 'said', content_rowid = 'message_id');
CREATE TRIGGER messages_text_insert AFTER INSERT ON messages
WHEN new.role IN ('user', 'assistant') BEGIN
    INSERT INTO messages_text (rowid, content) VALUES (new.message_id, new.content);
END;
CREATE TRIGGER messages_text_delete AFTER DELETE ON messages
WHEN old.role IN ('user', 'assistant') BEGIN
    INSERT INTO messages_text (messages_text, rowid, content) VALUES ('delete', old.message_id, old.content);
END;

-- What was received. A row is committed before the platform hears "received"; seen twice is one row. `run_id`
-- is what the run that answers it is called, where its door has said so before it began.
CREATE TABLE inbox (
    inbox_id     INTEGER PRIMARY KEY AUTOINCREMENT,
    platform     TEXT NOT NULL,
    account      TEXT NOT NULL,
    chat_id      TEXT NOT NULL,
    message_key  TEXT NOT NULL,
    session_key  TEXT NOT NULL,
    event        TEXT NOT NULL,
    received_at  REAL NOT NULL,
    state        TEXT NOT NULL CHECK (state IN ('pending', 'of_turn', 'done')),
    turn_id      INTEGER REFERENCES turns ON DELETE SET NULL,
    done_at      REAL,
    run_id       TEXT,
    UNIQUE (platform, account, chat_id, message_key),
    CHECK ((state = 'done') = (done_at IS NOT NULL)),
    CHECK (state <> 'of_turn' OR turn_id IS NOT NULL)
) STRICT;
CREATE INDEX inbox_waiting ON inbox (session_key, inbox_id) WHERE state = 'pending';
CREATE INDEX inbox_of_turn ON inbox (turn_id) WHERE turn_id IS NOT NULL;
CREATE INDEX inbox_done ON inbox (done_at) WHERE state = 'done';
CREATE INDEX inbox_by_run ON inbox (run_id) WHERE run_id IS NOT NULL;

-- What is owed to a chat. The attempt is recorded before the send, the receipt after it.
CREATE TABLE outbox (
    outbox_id     INTEGER PRIMARY KEY AUTOINCREMENT,
    delivery_key  TEXT NOT NULL UNIQUE,
    platform      TEXT NOT NULL,
    account       TEXT NOT NULL,
    chat_id       TEXT NOT NULL,
    thread_id     TEXT,
    reply_to      TEXT,
    session_id    TEXT REFERENCES sessions ON DELETE SET NULL,
    turn_id       INTEGER REFERENCES turns ON DELETE SET NULL,
    body          TEXT NOT NULL,
    streamed      INTEGER NOT NULL DEFAULT 0,
    created_at    REAL NOT NULL,
    state         TEXT NOT NULL CHECK (state IN ('owed', 'attempting', 'sent', 'given_up')),
    attempts      INTEGER NOT NULL DEFAULT 0,
    attempted_at  REAL,
    receipt       TEXT,
    error         TEXT,
    done_at       REAL,
    CHECK ((state IN ('sent', 'given_up')) = (done_at IS NOT NULL))
) STRICT;
CREATE INDEX outbox_owed ON outbox (platform, account, chat_id, outbox_id)
    WHERE state IN ('owed', 'attempting') AND NOT streamed;
CREATE INDEX outbox_done ON outbox (done_at) WHERE done_at IS NOT NULL;
CREATE INDEX outbox_growing ON outbox (attempted_at) WHERE streamed AND done_at IS NULL;
CREATE INDEX outbox_of_session ON outbox (session_id) WHERE session_id IS NOT NULL;
CREATE INDEX outbox_of_turn ON outbox (turn_id) WHERE turn_id IS NOT NULL;

-- Nothing is sent there until somebody is heard from there.
CREATE TABLE dead_chats (
    platform   TEXT NOT NULL,
    account    TEXT NOT NULL,
    chat_id    TEXT NOT NULL,
    reason     TEXT NOT NULL,
    marked_at  REAL NOT NULL,
    PRIMARY KEY (platform, account, chat_id)
) STRICT, WITHOUT ROWID;

-- Process groups we started; pid and start time together name one process for ever. `told_at` is when the
-- model has heard of the end of one in the background.
CREATE TABLE processes (
    process_id  TEXT PRIMARY KEY,
    session_id  TEXT NOT NULL REFERENCES sessions ON DELETE CASCADE,
    life        TEXT NOT NULL,
    pid         INTEGER NOT NULL,
    pid_time    REAL NOT NULL,
    command     TEXT NOT NULL,
    background  INTEGER NOT NULL,
    spool       TEXT,
    started_at  REAL NOT NULL,
    ended_at    REAL,
    exit_code   INTEGER,
    told_at     REAL
) STRICT;
CREATE INDEX processes_alive ON processes (life) WHERE ended_at IS NULL;
CREATE INDEX processes_by_session ON processes (session_id);

-- Approvals and questions live as long as their turn: its end closes them.
CREATE TABLE approvals (
    approval_id  TEXT PRIMARY KEY,
    turn_id      INTEGER NOT NULL REFERENCES turns ON DELETE CASCADE,
    kind         TEXT NOT NULL CHECK (kind IN ('approval', 'question')),
    asked        TEXT NOT NULL,
    asked_at     REAL NOT NULL,
    answer       TEXT,
    answered_by  TEXT,
    closed_at    REAL
) STRICT;
CREATE INDEX approvals_of_turn ON approvals (turn_id);

-- Who asked to be let in, with the hash of the code that was shown to them, and whom the owner let in. Each
-- wrong code that was tried is a row of the third table: enough of them lock the door.
CREATE TABLE pairing_requests (
    platform   TEXT NOT NULL,
    user_id    TEXT NOT NULL,
    user_name  TEXT,
    asked_at   REAL NOT NULL,
    code_hash  BLOB NOT NULL,
    PRIMARY KEY (platform, user_id)
) STRICT, WITHOUT ROWID;

CREATE TABLE paired (
    platform     TEXT NOT NULL,
    user_id      TEXT NOT NULL,
    user_name    TEXT,
    approved_at  REAL NOT NULL,
    PRIMARY KEY (platform, user_id)
) STRICT, WITHOUT ROWID;

CREATE TABLE pairing_mistakes (
    made_at  REAL NOT NULL
) STRICT;

-- How each life of the gateway ends: committed when the ending is decided, completed when it is over.
CREATE TABLE endings (
    life           TEXT PRIMARY KEY,
    kind           TEXT NOT NULL CHECK (kind IN ('stop', 'restart')),
    cause          TEXT NOT NULL,
    asked_by       TEXT,
    grace          REAL NOT NULL,
    resume_reason  TEXT NOT NULL,
    state_left     TEXT NOT NULL CHECK (state_left IN ('running', 'stopped', 'startup_failed')),
    recorded_at    REAL NOT NULL,
    finished_at    REAL,
    report         TEXT
) STRICT;

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

-- What the agent means to do in a session, as JSON: it reads and writes the list as a whole.
CREATE TABLE todos (
    session_id  TEXT PRIMARY KEY REFERENCES sessions ON DELETE CASCADE,
    items       TEXT NOT NULL
) STRICT;
