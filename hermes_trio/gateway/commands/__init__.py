"""Chat commands: the parser, the table of commands, and their effects."""
