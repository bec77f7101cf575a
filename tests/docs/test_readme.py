"""The README: every block is pasted as it stands, in its order, in an empty folder."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```(\w*)\n(.*?)^```$", README, re.DOTALL | re.MULTILINE)
# Blocks that need what others before them made stand together; those of eBird start anew.
BIRDS = [(kind, text) for kind, text in BLOCKS if kind in ("python", "bash") and "ebird" not in text]
EBIRD = [(kind, text) for kind, text in BLOCKS if kind == "bash" and "ebird" in text]


def test_blocks__all__are_pasted_or_known():
    rest = [(kind, text) for kind, text in BLOCKS if (kind, text) not in BIRDS + EBIRD]
    assert [kind for kind, _ in rest] == ["", "sh", "sh", "bibtex"]  # sh: what makes the environment
    targets = re.findall(r"^make (\w+)", rest[0][1], re.MULTILINE)
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    assert targets == ["demo", "test"]
    assert all(re.search(rf"^{target}:", makefile, re.MULTILINE) for target in targets)
    assert len(BIRDS) == 3
    assert len(EBIRD) == 1


@pytest.mark.slow
@pytest.mark.parametrize("blocks", [BIRDS, EBIRD], ids=["birds", "ebird"])
def test_blocks__pasted_in_order__run(blocks, tmp_path):
    own = {
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT / "src"),
        "HOTVAE_CACHE_DIR": str(tmp_path / "cache"),
        "OMP_NUM_THREADS": "1",
    }
    environment = {name: value for name, value in os.environ.items() if name != "HOTVAE_DATA_DIR"} | own
    for kind, text in blocks:
        command = [sys.executable, "-c", text] if kind == "python" else ["bash", "-euo", "pipefail", "-c", text]
        done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"{text}\n{done.stdout}\n{done.stderr}"
    made = {path.name for path in tmp_path.iterdir()}
    assert {"told.csv", "explorer.html", "report.html"} <= made or {"maps"} <= made


@pytest.mark.parametrize("link", sorted(set(re.findall(r"\]\((?!http)([^)#]+)", README))))
def test_links__of_the_readme__lead_to_files(link):
    assert (ROOT / link).exists()
