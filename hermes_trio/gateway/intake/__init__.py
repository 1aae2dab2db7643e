"""Intake: from a received message to a row of the inbox and a woken session."""
