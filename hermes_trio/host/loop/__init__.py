"""The event loop of this process: threads beside it, watchers over it, its limits."""
