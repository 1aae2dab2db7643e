"""One turn: its run, what the agent sees of it, how others end it, and what it leaves behind."""
