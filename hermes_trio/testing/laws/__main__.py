"""Run the laws of adapters and print the matrix of laws and platforms.

python -m hermes_trio.testing.laws tests/test_laws.py [other arguments of pytest]
"""

from __future__ import annotations

import sys

import pytest

from .matrix import Recorder, table


def main(arguments: list[str]) -> int:
    """Run pytest, print the table, and return the exit code of pytest."""
    recorder = Recorder()
    # This program is a part of the package whose plugin pytest loads, and so was imported before pytest.
    imported_before = ["-W", "ignore::pytest.PytestAssertRewriteWarning"]
    code = pytest.main(["-q", "-p", "no:cacheprovider", *imported_before, *arguments], plugins=[recorder])
    print("\n".join(table(recorder.columns())))
    return int(code)


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
