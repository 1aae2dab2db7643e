"""Work of a former life that a start takes up: the import, turns without an end, resuming, waiting
messages."""
