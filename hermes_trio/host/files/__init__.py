"""Files of the operating system: private files, small JSON files, locks on files."""
