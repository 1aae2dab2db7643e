"""Who answers: the loop between a model and the tools, and what is behind it."""
