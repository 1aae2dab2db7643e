"""Values that every room may use: errors, ids, messages, events, the time of day and TLS."""
