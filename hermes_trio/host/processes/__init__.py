"""Child processes and process groups: their lifetime, identity and output."""
