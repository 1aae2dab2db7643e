-- The browsers that were let in to the page. A cookie counts only while its row is here.
CREATE TABLE logins (
    login_id    TEXT PRIMARY KEY,
    made_at     REAL NOT NULL,
    expires_at  REAL NOT NULL,
    browser     TEXT NOT NULL
) STRICT;
