"""Sessions at work: the registry, the task of each session, and the limit of running turns."""
