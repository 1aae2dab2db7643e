-- Prompts from the time when all people shared one memory. Each is made anew before the next turn.
UPDATE sessions SET prompt = NULL;
