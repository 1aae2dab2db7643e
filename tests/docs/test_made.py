"""The reference pages say what the code says."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from docs.made import PAGES, made
from tests.machine import PATIENCE

pytestmark = pytest.mark.timeout(240)

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("name", PAGES)
def test_a_made_page_is_as_the_code_says(name: str) -> None:
    (path,) = (path for path in made() if path.name == name)
    assert path.read_text("utf-8") == made()[path], f"{name} differs: run `python docs/made.py`"


def check(folder: Path) -> subprocess.CompletedProcess[str]:
    """Run the check on a copy of the documentation."""
    return subprocess.run(
        [sys.executable, str(folder / "made.py"), "--check"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE,
    )


def test_the_check_names_each_page_that_differs(tmp_path: Path) -> None:
    (tmp_path / "made.py").write_text((ROOT / "docs/made.py").read_text("utf-8"), "utf-8")
    (tmp_path / "reference").mkdir()
    for path, text in made().items():
        (tmp_path / "reference" / path.name).write_text(text, "utf-8")
    assert check(tmp_path).returncode == 0
    with open(tmp_path / "reference" / "cli.md", "a") as page:
        page.write("A line by hand.\n")
    (tmp_path / "reference" / "http-api.md").unlink()
    found = check(tmp_path)
    assert found.returncode == 1
    assert found.stderr.split("\n")[:2] == [
        "cli.md differs from the code. Run `python docs/made.py`.",
        "http-api.md differs from the code. Run `python docs/made.py`.",
    ]
