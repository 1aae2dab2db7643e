"""The subcommands about a home as a whole: its backup and its return."""
