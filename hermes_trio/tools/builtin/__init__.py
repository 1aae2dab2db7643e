"""The built-in tools, one module for each; see `all_tools` for the list."""
