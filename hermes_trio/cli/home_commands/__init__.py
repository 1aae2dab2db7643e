"""The subcommands about what a home holds (conversations, journals, log, backups, import), and completion in
a shell."""
