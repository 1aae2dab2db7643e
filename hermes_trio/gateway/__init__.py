"""Everything between a message that is stored and an answer that is owed.

The rules are pure functions over frozen values (`resume`, `notes`, `router`); what waits, sends and
writes is built around them (`serve`, `session`, `turn`, `lane`).
"""
