"""The home directory: its lock, marker files and state file."""
