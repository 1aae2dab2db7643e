"""The event loop of this process: worker threads beside it, watchers over it, its limits."""
