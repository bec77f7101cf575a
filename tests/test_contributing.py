"""CONTRIBUTING.md says what is true: its diff of a new encoder, its walk of a training, its tree and layers."""

import re
import shutil
import subprocess
import sys
import traceback
from pathlib import Path

import pytest

import hotvae
from hotvae.cli import main
from hotvae.net import losses

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "CONTRIBUTING.md").read_text()

TRAIN = """
import numpy as np, pandas as pd
from hotvae import HotVAENetwork, Training, load_model
from hotvae.features import DNATokens

words = DNATokens().transform(["AAC", "aaact", "AC", "AAN"]).padded()
assert words.tolist() == [[4, 0, 0], [3, 4, 10], [1, 0, 0], [2, 0, 0]]
random = np.random.default_rng(0)
sequences = pd.DataFrame({"dna": ["".join(random.choice(list("ACGT"), 9)) for _ in range(200)]})
labels = np.array([["TAT" in dna, dna.count("G") > 2] for dna in sequences["dna"]]).astype(int)
model = HotVAENetwork(encoder="dna", dim=16, training=Training(max_epochs=2), random_state=0).fit(sequences, labels)
model.save("model")
again = load_model("model")
assert (again.predict_proba(sequences) == model.predict_proba(sequences)).all()
assert HotVAENetwork.from_settings(encoder="dna", max_epochs=3).training.max_epochs == 3
"""


@pytest.mark.slow
def test_diff_of_a_new_encoder__applied_to_the_package__trains_saves_and_loads(tmp_path):
    git = shutil.which("git")
    if git is None:
        pytest.skip("needs git to apply the diff")
    (diff,) = re.findall(r"^```diff\n(.*?)^```$", PAGE, flags=re.DOTALL | re.MULTILINE)
    touched = {Path(name).parent for name in re.findall(r"^\+\+\+ b/(\S+)", diff, flags=re.MULTILINE)}
    assert touched == {Path("src/hotvae/features")}
    shutil.copytree(ROOT / "src", tmp_path / "src", ignore=shutil.ignore_patterns("__pycache__"))
    subprocess.run([git, "apply", "-"], input=diff, text=True, cwd=tmp_path, check=True)
    start = f"import sys; sys.path.insert(0, {str(tmp_path / 'src')!r})\n"
    subprocess.run([sys.executable, "-W", "error", "-c", start + TRAIN], cwd=tmp_path, check=True)


def test_walk_of_a_training__beside_a_real_one__has_the_same_frames(tmp_path, monkeypatch):
    rows = "".join(f"{i},{i % 2},{i % 3 % 2}\n" for i in range(60))
    (tmp_path / "sites.csv").write_text("depth,sp_owl,sp_wren\n" + rows)

    def stop(*args):
        raise ZeroDivisionError

    monkeypatch.setattr(losses, "ranking_loss", stop)
    table, out = str(tmp_path / "sites.csv"), str(tmp_path / "model")
    with pytest.raises(ZeroDivisionError) as caught:
        main(["train", table, "--labels", "sp_*", "--recipe", "network", "--out", out, "--quiet"])
    package = Path(hotvae.__file__).parent
    frames = [(Path(frame.filename), frame.name) for frame in traceback.extract_tb(caught.tb)]
    seen = [(str(file.relative_to(package)), name) for file, name in frames if file.is_relative_to(package)]
    (walk,) = re.findall(r"## A training in ten lines.*?```\n(.*?)```", PAGE, flags=re.DOTALL)
    printed = [(line.split()[0], line.split()[1].rpartition(".")[2]) for line in walk.splitlines()]
    assert [*seen, ("net/losses.py", "ranking_loss")] == printed
    assert len(printed) <= 10


def test_tree__of_the_page__names_every_folder_of_the_package():
    folders = {path.parent.name for path in (ROOT / "src" / "hotvae").glob("*/__init__.py")}
    assert folders == set(re.findall(r"^  (\w+)/ ", PAGE, flags=re.MULTILINE))


def test_layers__of_the_page__are_those_that_are_enforced():
    (enforced,) = re.findall(
        r"^layers = \[(.*?)\]", (ROOT / "pyproject.toml").read_text(), flags=re.DOTALL | re.MULTILINE
    )
    (shown,) = re.findall(r"```\n(cli : .*?)```", PAGE, flags=re.DOTALL)
    layers = [re.findall(r"hotvae\.(\w+)", line) for line in enforced.strip().splitlines()]
    assert [re.findall(r"\w+", layer) for layer in shown.split(">")] == layers
    assert len(layers) <= 11
