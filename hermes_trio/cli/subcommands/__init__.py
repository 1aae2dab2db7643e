"""One module for each subcommand of `hermes-trio`, imported when its command runs."""
