"""Chat commands: parsing, the table of commands, and what they do."""
