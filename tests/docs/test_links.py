"""Links lead somewhere, and the site is built without a warning."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.machine import PATIENCE

from .pages import OTHER_PAGES, PAGES, ROOT

pytestmark = pytest.mark.timeout(180)


def _anchor(heading: str) -> str:
    """Return the anchor of a heading on the site."""
    plain = re.sub(r"[^\w\s-]", "", heading.lower()).strip()
    return re.sub(r"[-\s]+", "-", plain)


@pytest.mark.parametrize("path", [*PAGES, *OTHER_PAGES], ids=lambda path: str(path.relative_to(ROOT)))
def test_a_link_in_a_page_leads_somewhere(path: Path) -> None:
    text = re.sub(r"```.*?```", "", path.read_text("utf-8"), flags=re.DOTALL)
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if target.startswith(("http://", "https://")):
            continue
        name, _, anchor = target.partition("#")
        file = (path.parent / name) if name else path
        assert file.exists(), target
        if anchor:
            headings = re.findall(r"^#+ (.+)$", file.read_text("utf-8"), re.MULTILINE)
            assert anchor in map(_anchor, headings), target


@pytest.mark.skipif(find_spec("mkdocs") is None, reason="needs the extra docs")
def test_the_site_is_built_without_a_warning_and_loads_nothing_from_elsewhere(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path / "site")],
        cwd=ROOT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE,
    )
    assert done.returncode == 0, done.stderr
    html = "\n".join(path.read_text("utf-8") for path in (tmp_path / "site").rglob("*.html"))
    assert not re.findall(r"<(?:script|img)[^>]+src=\"?https?:|<link[^>]+stylesheet[^>]+https?:", html)
