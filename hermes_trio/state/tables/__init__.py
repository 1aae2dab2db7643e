"""One module for each table: frozen rows, and functions `(db, …)` that read or write them.

Functions that write are steps of the database: what they store is committed by their caller's transaction.
They may use `db` and each other's rows.
"""
