"""The home directory: its lock, private files, marker files and state file."""
