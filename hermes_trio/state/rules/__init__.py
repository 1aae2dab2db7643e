"""Rules over several tables: the session store, the end of a turn, retention, undo."""
