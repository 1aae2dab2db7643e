"""Rules over several tables: the session store, the end of a turn, reset and retention, undo, and the data of
hermes-agent, the original. They may use `tables` and `db`.
"""
