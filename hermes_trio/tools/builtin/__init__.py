"""The tools that come with the gateway."""
