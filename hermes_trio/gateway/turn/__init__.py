"""One turn: its run, its context for the agent, its handle for other tasks, and its outcome."""
