"""One module of functions for each table."""
