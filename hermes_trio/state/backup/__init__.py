"""Backups of a home: the file, how it is written while a gateway runs, and how a home is made from it."""
