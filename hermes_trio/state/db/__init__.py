"""The SQLite file: owner thread, opening, schema steps, search index, column text, errors and retries."""
