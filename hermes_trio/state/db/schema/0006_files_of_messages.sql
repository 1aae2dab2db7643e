-- The files that a person sent with a message, by reference: names in the directory of the session's files.
ALTER TABLE messages ADD COLUMN files TEXT;
