"""Benchmarks: each figure with the bare limit, measured in the same run."""
