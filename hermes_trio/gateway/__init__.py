"""The gateway: everything between a received message and its delivered answer.

The rules are pure functions over frozen values (`router.route`, `startup.resume_rules`, `turn.system_notes`).
The tasks that wait, send and store are built around them (`serve`, `session`, `turn`, `outbound`, `links`).
"""
