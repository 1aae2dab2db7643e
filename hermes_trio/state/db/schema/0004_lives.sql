-- One run of the gateway in one home (`node`). It is the fencing token: each transaction moves the beat of its
-- life, and fails when that life is over. A life that is over never goes on.
CREATE TABLE lives (
    life      TEXT PRIMARY KEY,
    node      TEXT NOT NULL,
    beat      INTEGER NOT NULL DEFAULT 0,
    begun_at  REAL NOT NULL,
    over_at   REAL,
    ended_by  TEXT,
    CHECK ((over_at IS NULL) = (ended_by IS NULL))
) STRICT;
INSERT INTO lives (life, node, begun_at) SELECT value, 'home', 0 FROM meta WHERE name = 'life';
DELETE FROM meta WHERE name = 'life';
