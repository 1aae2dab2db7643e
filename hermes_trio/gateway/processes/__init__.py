"""Commands that the agent runs, in a turn and in the background."""
