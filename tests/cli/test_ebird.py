"""``hotvae ebird``: what is typed, what is printed."""

import json

import pandas as pd
import pytest

from hotvae.geo.ebird import Filters, prepare
from hotvae.geo.ebird_example import write_example


@pytest.fixture(scope="module")
def pair(tmp_path_factory):
    return write_example(tmp_path_factory.mktemp("ebird"), n_checklists=300, n_species=6)


def test_ebird_prepare__options__mean_what_python_says(pair, tmp_path, run):
    typed = ["--bbox", "-76.4,42.1,-74.6,43.4", "--dates", "2020-02-01:2024-11-30", "--months", "11-2,4"]
    typed += [
        "--protocol",
        "traveling,Stationary",
        "--hours",
        "0:6",
        "--km",
        ":10",
        "--observers",
        "1:",
        "--speed",
        "0:50",
    ]
    typed += ["--region", "XX-NO", "--min-detections", "3"]
    out = tmp_path / "c.parquet"
    code, printed, err = run("ebird", "prepare", pair.ebd, pair.sampling, "--out", out, *typed)
    assert (code, err) == (0, "")
    filters = Filters(
        regions=("XX-NO",),
        bounds=(-76.4, 42.1, -74.6, 43.4),
        dates=("2020-02-01", "2024-11-30"),
        months=(11, 12, 1, 2, 4),
        protocols=("traveling", "Stationary"),
        hours=(0.0, 6.0),
        kilometres=(None, 10.0),
        observers=(1.0, None),
        speed=(0.0, 50.0),
    )
    found = prepare(pair.ebd, pair.sampling, tmp_path / "python.parquet", filters=filters, min_detections=3)
    assert out.read_bytes() == (tmp_path / "python.parquet").read_bytes()
    assert f"wrote {found.n_checklists} checklists × {len(found.species)} species to {out}\n" in printed
    for step in found.audit["step"]:
        assert step in printed
    assert printed.splitlines()[-1].startswith(f"next  hotvae train {out} --labels @{tmp_path / 'c.species.txt'}")


def test_ebird_prepare__best_practice__gives_way_to_other_options(pair, tmp_path, run):
    command = ["ebird", "prepare", pair.ebd, pair.sampling, "--out", tmp_path / "c.parquet", "--best-practice"]
    code, printed, _ = run(*command, "--hours", "0:1", "--json")
    assert code == 0
    steps = [row["step"] for row in json.loads(printed)["audit"]]
    assert {"duration 0 to 1 h", "distance 0 to 10 km", "speed 0 to 100 km/h", "observers 1 to 10"} <= set(steps)
    assert "duration 0 to 6 h" not in steps


def test_ebird_prepare__file_that_is_there__is_kept_without_force(pair, tmp_path, fails, run):
    out = tmp_path / "c.parquet"
    out.write_text("mine")
    command = ["ebird", "prepare", pair.ebd, pair.sampling, "--out", out]
    assert "output must be a new file" in fails(*command)
    assert out.read_text() == "mine"
    assert run(*command, "--force")[0] == 0
    assert len(pd.read_parquet(out)) > 0


@pytest.mark.parametrize(
    ("typed", "message"),
    [
        (("--bbox", "1,2,3"), "--bbox must be W,S,E,N; got '1,2,3'"),
        (("--dates", "2020"), "--dates must be FIRST:LAST; got '2020'"),
        (("--months", "May"), "--months must be numbers such as 5-7 or 4,5,9; got 'May'"),
        (("--hours", "6"), "--hours must be LEAST:MOST; got '6'"),
        (("--km", "a:b"), "--km must be LEAST:MOST; got 'a:b'"),
        (("--names", "latin"), "names must be one of 'scientific', 'common'"),
    ],
)
def test_ebird_prepare__what_makes_no_sense__is_named(pair, tmp_path, fails, typed, message):
    assert message in fails("ebird", "prepare", pair.ebd, pair.sampling, "--out", tmp_path / "c.parquet", *typed)


def test_ebird_example__printed_command__runs(tmp_path, run):
    code, printed, _ = run(
        "ebird", "example", tmp_path / "new", "--checklists", "80", "--species", "4", "--bbox", "5,50,6,51"
    )
    assert code == 0
    command = printed.splitlines()[-1].removeprefix("next  hotvae ").split()
    assert run(*command)[0] == 0
    table = pd.read_parquet(tmp_path / "new" / "checklists.parquet")
    assert table["longitude"].between(5, 6).all()
    assert list(table)[13:] == ["Avicula alnea", "Avicula betulae", "Avicula cedri", "Avicula corni"]
