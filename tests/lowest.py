"""Test the oldest versions of every dependency that pyproject.toml allows, on each Python that is to be had.

    make test-lowest                        what tests/lowest.json says is what was found
    python tests/lowest.py --pythons 3.11   one of them; what is stored of the others stays

An environment of its own is made for each Python, with ``--resolution lowest-direct``. Pythons are those that uv finds
or fetches, and those of pyenv. Torch's oldest version comes from the registry, with what it needs for graphics cards
on Linux: some gigabytes.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
RESULT = Path(__file__).with_name("lowest.json")
PYTHONS = ("3.11", "3.12", "3.13")
UV = Path(sys.executable).with_name("uv")
# Old versions beside new ones warn of each other; that is no failure here.
_WARNINGS = ("-o", "filterwarnings=default")
NAMED = ("numpy", "scipy", "pandas", "scikit-learn", "torch", "matplotlib", "typer", "pyarrow")


def run(*command: Any, **options: Any) -> subprocess.CompletedProcess[str]:
    """Run a command and keep what it says."""
    return subprocess.run([str(part) for part in command], text=True, capture_output=True, check=False, **options)


def environment() -> dict[str, str]:
    """Return where wheels come from: a folder that pip has been told of, or torch's own index for processors."""
    told = run(sys.executable, "-m", "pip", "config", "get", "global.find-links").stdout.strip()
    wheels = os.environ.get("UV_FIND_LINKS") or told
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    return kept | ({"UV_FIND_LINKS": wheels} if wheels else {"UV_TORCH_BACKEND": "cpu"})


def interpreter(version: str) -> str:
    """Return the newest Python of pyenv with this version, which uv does not look for; else leave it to uv."""
    root = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
    found = sorted(root.glob(f"versions/{version}.*/bin/python"), key=lambda path: int(path.parts[-3].split(".")[2]))
    return str(found[-1]) if found else version


def try_python(version: str, chosen: list[str]) -> dict[str, Any]:
    """Install the oldest versions for a Python and run the tests there."""
    where = environment()
    with tempfile.TemporaryDirectory() as folder:
        python = Path(folder) / "venv" / "bin" / "python"
        made = run(UV, "venv", "--python", interpreter(version), python.parents[1], env=where)
        if made.returncode:
            return {"python": version, "outcome": "no such Python to be had"}
        version = run(python, "-c", "import platform; print(platform.python_version())").stdout.strip()
        install = (UV, "pip", "install", "--python", python, "--resolution", "lowest-direct", f"{ROOT}[test]")
        installed = run(*install, env=where)
        if installed.returncode:
            return {"python": version, "outcome": "not installed", "said": installed.stderr[-1500:]}
        listed = json.loads(run(UV, "pip", "list", "--python", python, "--format", "json", env=where).stdout)
        versions = {entry["name"]: entry["version"] for entry in listed if entry["name"] in NAMED}
        tested = run(python, "-m", "pytest", "-q", "-p", "no:cacheprovider", *_WARNINGS, *chosen, cwd=ROOT, env=where)
    failed = sorted(set(re.findall(r"^(?:FAILED|ERROR) (\S+)", tested.stdout, re.MULTILINE)))
    summary = tested.stdout.strip().splitlines()[-1:] or [tested.stderr[-500:]]
    found = {"python": version, "outcome": "passed" if tested.returncode == 0 else "failed", "summary": summary[0]}
    return found | {"versions": versions, "failed": failed}


def main() -> int:
    """Try every Python and store what was found."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pythons", nargs="+", default=PYTHONS)
    parser.add_argument("tests", nargs="*", help="what pytest is to run; all fast tests by default")
    parser.add_argument("--processes", default="2", help="that share the tests")
    asked = parser.parse_args()
    tests = asked.tests or ["tests", "--ignore=tests/paper", "-m", "not slow and not data and not browser and not ray"]
    stored = json.loads(RESULT.read_text(encoding="utf-8")) if RESULT.exists() else {}
    found = stored["pythons"] if stored.get("tests") == tests else {}
    for version in asked.pythons:
        each = {"date": datetime.now(UTC).isoformat(timespec="seconds")} | try_python(
            version, [*tests, "-n", asked.processes]
        )
        found[version] = each
        print(each["python"], each["outcome"], each.get("summary", each.get("said", "")), flush=True)
        RESULT.write_text(json.dumps({"tests": tests, "pythons": found}, indent=1) + "\n", encoding="utf-8")
    return int(any(found[version]["outcome"] in ("failed", "not installed") for version in asked.pythons))


if __name__ == "__main__":
    sys.exit(main())
