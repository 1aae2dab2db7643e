"""The commands for contributors exist, and hosted CI runs them on each supported version of Python."""

from __future__ import annotations

import re
import tomllib

import pytest
from ruamel.yaml import YAML

from .pages import BY_HAND, OTHER_PAGES, ROOT

WORKFLOW = ROOT / ".github/workflows/ci.yml"
NAMED_IN = [*BY_HAND, *OTHER_PAGES, WORKFLOW, ROOT / ".github/pull_request_template.md", ROOT / ".ci/run"]


def targets() -> set[str]:
    """Return the targets of the Makefile that people call."""
    [line] = re.findall(r"^\.PHONY: (.+)$", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE)
    return set(line.split())


def commands() -> list[str]:
    """Return each target that a page, a template or a workflow calls."""
    text = "\n".join(path.read_text("utf-8") for path in NAMED_IN)
    return sorted(set(re.findall(r"(?:^|`|run: |&& )make ([a-z]+)", text, re.MULTILINE)))


@pytest.mark.parametrize("target", commands())
def test_a_target_that_a_page_or_a_workflow_names_is_in_the_makefile(target: str) -> None:
    assert target in targets()


def test_hosted_ci_tests_each_supported_version_of_python() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    oldest = project["requires-python"].removeprefix(">=")
    workflow = YAML(typ="safe").load(WORKFLOW.read_text("utf-8"))
    versions = workflow["jobs"]["test"]["strategy"]["matrix"]["python"]
    assert versions[0] == oldest
    minors = [int(version.partition(".")[2]) for version in versions]
    assert minors == list(range(minors[0], minors[-1] + 1))
    called = WORKFLOW.read_text("utf-8")
    assert all(f"run: make {target}" in called for target in ("lint", "docs", "test", "coverage"))


def test_a_template_asks_for_no_secret_and_a_weakness_is_not_reported_in_public() -> None:
    bug = (ROOT / ".github/ISSUE_TEMPLATE/bug.yml").read_text("utf-8")
    assert "Remove tokens" in bug
    assert "SECURITY.md" in bug


@pytest.mark.parametrize("name", ["bug.yml", "idea.yml", "config.yml"])
def test_an_issue_template_is_whole(name: str) -> None:
    form = YAML(typ="safe").load((ROOT / ".github/ISSUE_TEMPLATE" / name).read_text("utf-8"))
    assert form
    assert name == "config.yml" or {"name", "description", "body"} <= set(form)


def test_each_hook_calls_a_program_of_the_virtual_environment() -> None:
    hooks = YAML(typ="safe").load((ROOT / ".pre-commit-config.yaml").read_text("utf-8"))
    entries = [hook["entry"] for repository in hooks["repos"] for hook in repository["hooks"]]
    assert entries
    assert all(entry.startswith(".venv/bin/") for entry in entries)
