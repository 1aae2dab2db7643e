"""Commands that the agent runs, in the turn and in the background."""
