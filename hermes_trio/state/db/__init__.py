"""The database: owner thread, engines, opening, schema steps, search index, column text, errors, retries."""
