"""The database `gateway.db`: one SQLite file with one owner.

`backup` may use `rules`, `rules` may use `tables`, and `tables` may use `db`:

- `db`: the connection and its owner thread, transactions, opening, schema steps, damage, retries.
- `tables`: one module for each table, with frozen rows and functions that take the owner's connection.
- `rules`: transactions over several tables: the session store, the end of a turn, retention, undo.
- `backup`: backups of a whole home, and homes made from them.
"""
