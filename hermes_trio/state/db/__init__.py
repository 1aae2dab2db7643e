"""The SQLite file: its owner thread, opening, migrations and errors."""
