"""A small model of plants in which two species go together, and a client that asks it."""

import numpy as np
import pandas as pd
import pytest
from starlette.testclient import TestClient

from hotvae import load_model
from hotvae.cli import main
from hotvae.serve.app import make_app
from hotvae.serve.limits import Limits
from hotvae.serve.questions import Served

LABELS = ["sp_fern", "sp_ivy", "sp_oak"]


def table_of_plots(n_rows, seed):
    rng = np.random.default_rng(seed)
    depth, soil = rng.normal(size=n_rows), rng.choice(["clay", "sand"], n_rows)
    fern = rng.random(n_rows) < 0.5
    return pd.DataFrame(
        {
            "plot": [f"p{i}" for i in range(n_rows)],
            "depth": depth.round(4),
            "soil": soil,
            "sp_fern": fern.astype(int),
            "sp_ivy": (fern ^ (rng.random(n_rows) < 0.03)).astype(int),  # where fern is, ivy is
            "sp_oak": ((depth + (soil == "clay")) > 0.5).astype(int),
        }
    )


@pytest.fixture(scope="session")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("served")
    table_of_plots(400, 0).to_csv(place / "plots.csv", index=False)
    words = [str(place / "plots.csv"), "--labels", "sp_*", "--id-column", "plot", "--effort", "quick", "--quiet"]
    assert main(["train", *words, "--out", str(place / "model")]) == 0
    return place / "model"


@pytest.fixture(scope="session")
def model(folder):
    return load_model(folder)


@pytest.fixture
def client(folder):
    with ask(folder) as client:
        yield client


def ask(folder, token=None, **limits):
    """Return a client of a service with limits of its own."""
    app = make_app(Served.load(folder, Limits(**limits)), token)
    return TestClient(app, base_url="http://localhost")


def records(frame):
    """Rows as JSON has them, without labels."""
    return frame.drop(columns=LABELS, errors="ignore").to_dict(orient="records")
