"""Judging of commands, process input and paths. `judge` is the door; see the import contracts in
`pyproject.toml`."""
