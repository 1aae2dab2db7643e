"""Outbound: from an owed row, a notice or a stream to a message in a chat."""
