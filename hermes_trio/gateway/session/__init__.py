"""Sessions at work: the registry and the task of each session."""
