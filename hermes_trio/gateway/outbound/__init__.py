"""From an owed row to a message in a chat."""
