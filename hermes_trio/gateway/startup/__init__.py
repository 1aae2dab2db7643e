"""What a start does before and when a platform connects: former turns, resuming, catching up."""
