"""The agent: the loop between a model and the tools, and the parts that the loop uses."""
