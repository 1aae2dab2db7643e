"""From a message that arrives to a stored row of the inbox."""
