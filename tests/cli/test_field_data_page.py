"""What docs/field_data.md tells to type works when it is typed."""

import re
import shlex
from pathlib import Path

import geopandas as gpd
import numpy as np
import pandas as pd
import pytest

from hotvae.cli import main
from tests.data.formats import test_darwin_core as archives

PAGE = (Path(__file__).parents[2] / "docs" / "field_data.md").read_text()


@pytest.fixture
def field(tmp_path, monkeypatch):
    """A folder with the files that the page speaks of."""
    monkeypatch.chdir(tmp_path)
    random = np.random.default_rng(0)
    n = 80
    sites = pd.DataFrame({"site": [f"s{i}" for i in range(n)], "depth": random.normal(size=n)})
    sites["lon"], sites["lat"] = random.uniform(7, 9, n), random.uniform(50, 52, n)
    birds = pd.DataFrame({"site": sites["site"]})
    for name in ("sp_owl", "sp_heron", "sp_wren"):
        birds[name] = (random.normal(size=n) + sites["depth"] > 0).astype(int)
    plots = sites.merge(birds)
    plots.to_csv("plots.csv", index=False)
    sites.to_csv("sites.csv", index=False)
    birds.to_csv("birds.csv", index=False)
    birds.iloc[3:].to_csv("some_birds.csv", index=False)
    Path("species.txt").write_text("sp_owl\nsp_wren\n")
    records = birds.melt(id_vars="site", var_name="species", value_name="count").query("count > 0")
    records.to_csv("records.csv", index=False)
    with pd.ExcelWriter("survey.xlsx") as writer:
        plots.to_excel(writer, sheet_name="plots", index=False)
        sites.to_excel(writer, sheet_name="notes", index=False)
    shapes = gpd.points_from_xy(plots["lon"], plots["lat"], crs="EPSG:4326")
    gpd.GeoDataFrame(plots.drop(columns=["lon", "lat"]), geometry=shapes).to_file("plots.gpkg")
    events = [archives.EVENTS[0]]
    events += [
        [f"e{i}", "", f"2020-05-{i % 28 + 1:02d}", f"{50 + i / 99}", f"{7 + i / 99}", "net", ""] for i in range(n)
    ]
    found = [archives.OCCURRENCES[0]]
    found += [[f"e{i}", f"o{i}", ("Bufo bufo", "Rana arvalis")[i % 3 % 2], "1", "present"] for i in range(0, n, 2)]
    monkeypatch.setattr(archives, "EVENTS", events)
    monkeypatch.setattr(archives, "OCCURRENCES", found)
    monkeypatch.setattr(archives, "MEASURES", archives.MEASURES[:1])
    archives.write("frogs.zip")
    return tmp_path


@pytest.mark.slow
def test_field_data_page__every_command__works(field, capsys):
    commands = [line for block in re.findall(r"```sh\n(.*?)```", PAGE, flags=re.S) for line in block.splitlines()]
    assert len(commands) == 15
    for command in commands:
        program, *typed = shlex.split(command.replace("--effort quick ", ""))
        assert program == "hotvae"
        quick = ["--model", "logistic", "--split", "random", "--quiet"] if typed[0] == "train" else []
        assert main(typed + quick) == 0, (command, capsys.readouterr().err)


def test_field_data_page__python__prints_what_it_says(capsys):
    code = next(block for block in re.findall(r"```python\n(.*?)```", PAGE, flags=re.S) if "read_table" in block)
    exec(compile(code, "field_data.md", "exec"), {})
    assert capsys.readouterr().out in PAGE
