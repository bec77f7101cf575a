"""Test the oldest versions of every dependency that pyproject.toml allows, on each Python that is to be had.

    make test-lowest                        what tests/lowest.json says is what was found
    python tests/lowest.py --pythons 3.11   one of them

An environment of its own is made for each Python, with ``--resolution lowest-direct``. Where torch's oldest version
is not to be had (a machine that is told of a folder of wheels), the one there is takes its place; the result says so.
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
NAMED = ("numpy", "scipy", "pandas", "scikit-learn", "torch", "matplotlib", "typer", "pyarrow")


def run(*command: Any, **options: Any) -> subprocess.CompletedProcess[str]:
    """Run a command and keep what it says."""
    return subprocess.run([str(part) for part in command], text=True, capture_output=True, check=False, **options)


def environment() -> tuple[dict[str, str], list[str]]:
    """Return where wheels come from, and what has to be pinned for it."""
    told = run(sys.executable, "-m", "pip", "config", "get", "global.find-links").stdout.strip()
    wheels = os.environ.get("UV_FIND_LINKS") or told
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    if not wheels:
        return kept | {"UV_TORCH_BACKEND": "cpu"}, []
    return kept | {"UV_FIND_LINKS": wheels}, ["-c", str(ROOT / "constraints.txt")]


def try_python(version: str, chosen: list[str]) -> dict[str, Any]:
    """Install the oldest versions for a Python and run the tests there."""
    where, pinned = environment()
    with tempfile.TemporaryDirectory() as folder:
        python = Path(folder) / "venv" / "bin" / "python"
        made = run(UV, "venv", "--python", version, python.parents[1], env=where)
        if made.returncode:
            return {"python": version, "outcome": "no such Python to be had"}
        version = run(python, "-c", "import platform; print(platform.python_version())").stdout.strip()
        install = (UV, "pip", "install", "--python", python, "--resolution", "lowest-direct", *pinned, f"{ROOT}[test]")
        installed = run(*install, env=where)
        if installed.returncode:
            return {"python": version, "outcome": "not installed", "said": installed.stderr[-1500:]}
        listed = json.loads(run(UV, "pip", "list", "--python", python, "--format", "json", env=where).stdout)
        versions = {entry["name"]: entry["version"] for entry in listed if entry["name"] in NAMED}
        tested = run(python, "-m", "pytest", "-q", "-p", "no:cacheprovider", *chosen, cwd=ROOT, env=where)
    failed = sorted(set(re.findall(r"^(?:FAILED|ERROR) (\S+)", tested.stdout, re.MULTILINE)))
    summary = tested.stdout.strip().splitlines()[-1:] or [tested.stderr[-500:]]
    found = {"python": version, "outcome": "passed" if tested.returncode == 0 else "failed", "summary": summary[0]}
    return found | {"torch": "oldest" if not pinned else "pinned", "versions": versions, "failed": failed}


def main() -> int:
    """Try every Python and store what was found."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pythons", nargs="+", default=PYTHONS)
    parser.add_argument("tests", nargs="*", help="what pytest is to run; all fast tests by default")
    asked = parser.parse_args()
    fast = ["tests", "--ignore=tests/paper", "-m", "not slow and not data and not browser", "-n", "2"]
    found = [try_python(version, asked.tests or fast) for version in asked.pythons]
    stored = {"command": " ".join(["python", "tests/lowest.py", *sys.argv[1:]]), "pythons": found}
    date = {"date": datetime.now(UTC).isoformat(timespec="seconds")}
    RESULT.write_text(json.dumps(date | stored, indent=1) + "\n", encoding="utf-8")
    for each in found:
        print(each["python"], each["outcome"], each.get("summary", each.get("said", "")))
    return int(any(each["outcome"] in ("failed", "not installed") for each in found))


if __name__ == "__main__":
    sys.exit(main())
