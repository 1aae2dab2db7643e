"""Benchmarks: each figure beside the bare limit measured in the same run."""
