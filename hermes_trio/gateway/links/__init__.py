"""Links: live connections to platforms, access to the agent, and finding the adapters."""
