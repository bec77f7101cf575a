"""What people and sites look for in a repository: templates, workflows and citations that can be read."""

import re
import tomllib
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
TEMPLATES = sorted(path for path in (ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.yml") if path.name != "config.yml")
ISSUE = {"markdown", "textarea", "input", "dropdown", "checkboxes"}


def read(*parts):
    return yaml.safe_load((ROOT.joinpath(*parts)).read_text(encoding="utf-8"))


@pytest.mark.parametrize("path", TEMPLATES, ids=lambda path: path.stem)
def test_templates__of_issues__have_what_a_form_needs(path):
    form = read(path)
    assert {"name", "description", "body"} <= set(form)
    assert {part["type"] for part in form["body"]} <= ISSUE
    ids = [part["id"] for part in form["body"] if part["type"] != "markdown"]
    assert len(set(ids)) == len(ids)
    assert all(part["attributes"]["label"] for part in form["body"] if part["type"] != "markdown")


def test_workflow__of_ci__runs_what_stands_in_the_checkout_on_every_python_that_is_promised():
    jobs = read(".github", "workflows", "ci.yml")["jobs"]
    promised = [name.rsplit(" ", 1)[1] for name in PROJECT["classifiers"] if re.search(r":: 3\.\d+$", name)]
    assert jobs["check"]["strategy"]["matrix"]["python-version"] == promised
    assert jobs["lowest"]["strategy"]["matrix"]["python-version"] == promised
    commands = [step["run"] for job in jobs.values() for step in job["steps"] if "run" in step]
    assert "bash .ci/run" in commands
    targets = {word for line in commands for word in re.findall(r"^make (\S+)", line)}
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    assert targets == {"test-lowest", "docs", "wheel"}
    assert all(re.search(rf"^{target}:", makefile, re.MULTILINE) for target in targets)


def test_citation__version_and_licence__are_those_of_the_project():
    citation = read("CITATION.cff")
    assert (citation["version"], citation["license"]) == (PROJECT["version"], PROJECT["license"])
    assert f"version = {{{PROJECT['version']}}}" in (ROOT / "README.md").read_text(encoding="utf-8")
    assert {"Homepage", "Documentation", "Source", "Issues", "Changelog"} <= set(PROJECT["urls"])
