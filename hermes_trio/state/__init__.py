"""Durable facts: one SQLite file, one owner, one module of functions for each table.

`database` owns the connection and commits; `schema/` holds the numbered steps; every other module is
one table: frozen rows and functions that take the owner's connection. `settle` and `store` join them
to the rules of turns and of sessions; `text` guards what goes into a column and what comes out.
"""
