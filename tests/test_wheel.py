"""The wheel and the source archive: what is in them, and that each works in an empty environment (`make wheel`)."""

import os
import re
import shlex
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

from tests.docs.test_readme import BIRDS, EBIRD

ROOT = Path(__file__).resolve().parents[1]
PYTHON = Path(sys.executable)
UV = PYTHON.with_name("uv")
pytestmark = pytest.mark.skipif(
    not os.environ.get("HOTVAE_TEST_WHEEL"), reason="takes minutes and a package registry: make wheel"
)


def run(*command, **options):
    done = subprocess.run([str(part) for part in command], text=True, capture_output=True, check=False, **options)
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def settings():
    """Where wheels are found, as pip has been told; without that, torch's build for processors."""
    told = subprocess.run(
        [PYTHON, "-m", "pip", "config", "get", "global.find-links"], text=True, capture_output=True, check=False
    )
    found = os.environ.get("UV_FIND_LINKS") or told.stdout.strip()
    own = {"UV_FIND_LINKS": found} if found else {"UV_TORCH_BACKEND": "cpu"}
    return {name: value for name, value in os.environ.items() if not name.startswith(("HOTVAE_", "PYTHONPATH"))} | own


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    folder = tmp_path_factory.mktemp("dist")
    run(UV, "build", ROOT, "--out-dir", folder, env=settings())
    return folder


def test_wheel__content__has_data_templates_types_and_whole_addresses(built):
    (wheel,) = built.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
        (card,) = (name for name in names if name.endswith(".dist-info/METADATA"))
        told = archive.read(card).decode()
    for name in ("data/sets/breeding_birds_2009.csv.gz", "data/sets/README.md", "data/catalog.toml", "py.typed"):
        assert f"hotvae/{name}" in names
    assert any(name.startswith("hotvae/report/templates/") for name in names)
    assert {name.split("/")[0] for name in names if ".dist-info" not in name} == {"hotvae"}
    assert "Project-URL: Documentation, https://" in told
    assert "![The map" in told
    assert not re.findall(r"\]\((?!https?://)[^)]*\)", told)  # a registry shows no files beside the README
    assert wheel.stat().st_size < 5_000_000


def test_sdist__content__has_tests_and_documentation(built):
    (source,) = built.glob("*.tar.gz")
    with tarfile.open(source) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert {"pyproject.toml", "README.md", "LICENSE", "CITATION.cff", "mkdocs.yml", "tests/test_wheel.py"} <= names
    assert not [name for name in names if name.startswith((".venv", "site/", "hotvae-demo"))]


def environment_of(folder, archive, own, extra=""):
    """Make an environment with nothing but an archive and what it needs; return its folder of programs."""
    run(UV, "venv", "--python", PYTHON, folder, env=own)
    python = folder / "bin" / "python"
    run(UV, "pip", "install", "--python", python, "-c", ROOT / "constraints.txt", f"{archive}{extra}", env=own)
    code = "import hotvae; print(hotvae.__file__)"
    assert "site-packages" in run(python, "-c", code, cwd=folder, env=own)
    return folder / "bin"


def test_wheel__in_an_empty_environment__does_all_that_the_readme_says(built, tmp_path):
    (archive,) = built.glob("*.whl")
    own = settings()
    programs = environment_of(tmp_path / "venv", archive, own, "[geo]")
    own["PATH"] = f"{programs}{os.pathsep}{own['PATH']}"
    assert run(programs / "hotvae", "--version", env=own).startswith("hotvae ")
    (tmp_path / "work").mkdir()
    for kind, text in BIRDS + EBIRD:
        command = [programs / "python", "-c", text] if kind == "python" else ["bash", "-euo", "pipefail", "-c", text]
        run(*command, cwd=tmp_path / "work", env=own)
    made = {path.name for path in (tmp_path / "work").iterdir()}
    assert {"told.csv", "species.csv", "explorer.html", "report.html", "maps"} <= made


def test_sdist__in_an_empty_environment__trains_and_names_what_an_extra_brings(built, tmp_path):
    (archive,) = built.glob("*.tar.gz")
    own = settings()
    programs = environment_of(tmp_path / "venv", archive, own)
    run(programs / "hotvae", "data", "tables", "breeding_birds_2009", "--out", "birds", cwd=tmp_path, env=own)
    roles = ["--labels", "Acadian Flycatcher:Yellow-throated Vireo", "--id-column", "route"]
    where = ["--coordinates", "longitude,latitude", "--effort", "1", "--quiet", "--out", "model"]
    run(programs / "hotvae", "train", "birds/train.csv", *roles, *where, cwd=tmp_path, env=own)
    run(programs / "hotvae", "predict", "model", "birds/test.csv", "--out", "told.csv", cwd=tmp_path, env=own)
    missing = subprocess.run(
        [programs / "hotvae", "data", "rasters", "--out", "r"], cwd=tmp_path, env=own, text=True, capture_output=True
    )
    assert missing.returncode == 2
    named = re.search(r"The extra 'geo' of hotvae brings it: pip install (.*)\.\n", missing.stderr)[1]
    assert {"duckdb", "rasterio", "shapely"} <= {re.match(r"\w+", name)[0] for name in shlex.split(named)}
