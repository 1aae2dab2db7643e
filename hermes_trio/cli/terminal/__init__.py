"""The chat in a terminal: a client of the gateway's API with a line editor."""
