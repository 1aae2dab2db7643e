-- lives-with: 0009
-- Where the other gateways reach the web server of a life; none if it has no server, or not yet.
ALTER TABLE lives ADD COLUMN address TEXT;
