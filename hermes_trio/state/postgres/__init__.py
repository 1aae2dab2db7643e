"""The store on a PostgreSQL server, through psycopg (extra `postgres`): connection, engine, schema, errors.

Nothing else imports psycopg; `chosen_store` loads this where `database.url` is configured.
"""
