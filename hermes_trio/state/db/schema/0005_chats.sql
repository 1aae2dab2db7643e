-- Which life answers in a chat, where several share the store. No row: nobody yet.
CREATE TABLE chats (
    platform  TEXT NOT NULL,
    account   TEXT NOT NULL,
    chat_id   TEXT NOT NULL,
    life      TEXT NOT NULL REFERENCES lives,
    PRIMARY KEY (platform, account, chat_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX chats_of_life ON chats (life);

-- What only one life does, such as receiving for an account.
CREATE TABLE roles (
    role  TEXT PRIMARY KEY,
    life  TEXT NOT NULL REFERENCES lives
) STRICT;

-- Messages that another life has received for the owner of their chat, which has still to decide what they are.
CREATE TABLE told (
    inbox_id  INTEGER NOT NULL PRIMARY KEY REFERENCES inbox ON DELETE CASCADE
) STRICT;
