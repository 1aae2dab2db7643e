"""The made pages say what the code says."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from importlib import import_module
from pathlib import Path

import pytest

from docs.made import PAGES, made, run
from docs.making.public_names import PACKAGES
from tests.machine import PATIENCE

pytestmark = pytest.mark.timeout(240)

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("name", PAGES)
def test_a_made_page_says_what_the_code_says(name: str) -> None:
    text = (ROOT / "docs" / name).read_text("utf-8")
    assert text == made()[name], f"{name} differs: run `python docs/made.py`"


def test_the_check_names_each_page_that_differs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in PAGES:
        (tmp_path / name).parent.mkdir(exist_ok=True)
    assert run([], tmp_path) == 0
    assert run(["--check"], tmp_path) == 0
    with open(tmp_path / "reference/cli.md", "a") as page:
        page.write("A line by hand.\n")
    (tmp_path / "reference/http-api.md").unlink()
    assert run(["--check"], tmp_path) == 1
    assert capsys.readouterr().err.splitlines() == [
        "reference/cli.md differs from the code. Run `python docs/made.py`.",
        "reference/http-api.md differs from the code. Run `python docs/made.py`.",
    ]


def test_the_program_runs_from_any_directory(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, str(ROOT / "docs/made.py"), "--help"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE,
    )
    assert (done.returncode, done.stderr) == (2, "usage: python docs/made.py [--check]\n")


def test_the_page_about_layers_draws_every_contract_and_every_module_of_a_package() -> None:
    text = made()["change/layers.md"]
    with open(ROOT / "pyproject.toml", "rb") as file:
        contracts = tomllib.load(file)["tool"]["importlinter"]["contracts"]
    containers = [name for contract in contracts for name in contract.get("containers", ())]
    assert all(f"## {container}\n" in text for container in containers)
    assert all(one["name"] in text for one in contracts if one["type"] != "layers")
    drawn = set(re.findall(r"^\| `(hermes_trio\.[\w.]+)` \|", text, re.MULTILINE))
    for container in containers:
        folder = ROOT.joinpath(*container.split("."))
        inside = {path.stem for path in folder.glob("*.py")} | {
            path.parent.name for path in folder.glob("*/*.py")
        }
        assert {f"{container}.{name}" for name in inside - {"__init__", "__main__"}} <= drawn


def test_the_page_about_public_names_has_each_of_them_with_a_meaning() -> None:
    rows = re.findall(
        r"^\| `(\w+)` \| [\w ]+ \| (.*?) ?\|$", made()["reference/public-names.md"], re.MULTILINE
    )
    listed = [
        name
        for package in PACKAGES
        for name in getattr(import_module(package), "__all__", ())
        if not name.startswith("__")
    ]
    assert sorted(name for name, _ in rows) == sorted(listed)
    assert not [name for name, meaning in rows if not meaning]
