"""The subcommands about a home as a whole (log, backup, restore, import), and completion in a shell."""
