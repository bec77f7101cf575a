"""What the tests of the commands share: a trained model, and the command line called as a function."""

import functools

import pandas as pd
import pytest

from hotvae import HotVAENetwork, read_table, split_dataset
from hotvae.cli import main
from tests.cli.region import PARAMETERS, QUICK, ROLES, region_table


@pytest.fixture(scope="session")
def folder(tmp_path_factory):
    """A table, new rows of the same region, and a model trained by the command line."""
    place = tmp_path_factory.mktemp("cli")
    everything = region_table(180)
    everything[:120].to_csv(place / "region.csv", index=False)
    everything[120:].to_csv(place / "new.csv", index=False)
    assert main(["train", str(place / "region.csv"), *ROLES, *QUICK, "--quiet", "--out", str(place / "model")]) == 0
    return place


@pytest.fixture
def run(capsys):
    """Run the command line; give back exit code, standard output and standard error."""

    def call(*arguments):
        code = main([str(argument) for argument in arguments])
        printed = capsys.readouterr()
        return code, printed.out, printed.err

    return call


@pytest.fixture
def fails(run):
    """Run the command line, expect a user's mistake, and give back the one line about it."""

    def call(*arguments):
        code, out, err = run(*arguments)
        last = err.splitlines()[-1]
        assert code == 2
        assert out == ""
        assert last.startswith("error: ")
        assert "Traceback" not in err
        assert sum(line.startswith("error: ") for line in err.splitlines()) == 1
        return last

    return call


@pytest.fixture(scope="session")
def python_model(folder):
    data = read_table(
        folder / "region.csv",
        labels="sp_*",
        id_column="site",
        coordinates=("easting_km", "northing_km"),
        coordinates_as_features=True,
    )
    parts = split_dataset(data, kind="stratified", fractions=(0.8, 0.2, 0.0), random_state=0)
    train, held_out = data.take(parts.train), data.take(parts.validation)
    as_frame = functools.partial(pd.DataFrame, columns=list(data.label_names))
    model = HotVAENetwork.from_settings(**PARAMETERS)
    return model.fit(train.features, as_frame(train.labels), validation=(held_out.features, as_frame(held_out.labels)))
