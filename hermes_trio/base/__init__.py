"""Values that every room may use: errors, ids, messages, events, and the doors of time and TLS."""
