-- lives-with: 0010
-- A server hints to the gateways that share it that work waits for them: see `postgres/schema.py`, which puts that
-- in the place of the next statement. A file has one gateway, which needs no hints.
SELECT 'hints' FROM told LIMIT 0;
