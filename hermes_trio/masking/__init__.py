"""Secrets: how they are recognised, which ones a gateway knows, and how they are masked."""
