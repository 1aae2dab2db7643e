"""Live connections to platforms, and finding their adapters."""
