"""The configuration: its keys, where it is read from, and the spelling of the original."""
