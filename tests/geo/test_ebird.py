"""From eBird files to a table: against a slow reference, against auk, and on files that are awkward."""

import gzip
import json
import os
import zipfile
from collections import Counter
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from hotvae.errors import ConfigError, DataError
from hotvae.geo.ebird import BEST_PRACTICE, CHECKLIST_COLUMNS, Filters, prepare, read_observations
from hotvae.geo.ebird_example import write_example
from tests.geo.ebird_reference import checklists_of, detections_of, lines_of

DATA = Path(os.environ.get("HOTVAE_DATA_DIR", "nowhere"))
FIXTURES, AUK = DATA / "ebird_fixtures", DATA.parent / "reference" / "ebird_auk"
needs_auk = pytest.mark.skipif(not (FIXTURES.is_dir() and AUK.is_dir()), reason="no eBird fixtures in HOTVAE_DATA_DIR")
USUAL = dict(BEST_PRACTICE)


@pytest.fixture(scope="module")
def pair(tmp_path_factory):
    return write_example(tmp_path_factory.mktemp("ebird"), n_checklists=600, n_species=12)


def detections_in(path):
    """Pairs of checklist and species that are 1 in a table, all other cells being 0."""
    table = pd.read_parquet(path).set_index("checklist_id")
    labels = table.drop(columns=[name for name in CHECKLIST_COLUMNS if name != "checklist_id"])
    assert set(np.unique(labels.to_numpy())) <= {0, 1}
    return {(row, name) for row, cells in labels.iterrows() for name in labels.columns[cells.to_numpy() == 1]}


# --- against a slow reference ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "filters",
    [
        {},
        USUAL,
        {"bounds": (-76.0, 42.2, -75.0, 43.0), "months": (4, 5, 6)},
        {"hours": (0.5, 1.1), "kilometres": (1.0, 10.0), "speed": (0.0, 3.0), "observers": (2.0, 3.0)},
    ],
)
def test_prepare__virtual_files__equal_a_plain_loop(pair, tmp_path, filters):
    found = prepare(
        pair.ebd, pair.sampling, tmp_path / "c.parquet", filters=Filters(**filters), counts=True, piece_bytes=50_000
    )
    checklists, seen = checklists_of(pair.sampling, **filters), detections_of(pair.ebd, **filters)
    table = pd.read_parquet(tmp_path / "c.parquet")
    assert set(table["checklist_id"]) == set(checklists)
    assert len(table) == len(checklists) == found.n_checklists
    assert detections_in(tmp_path / "c.parquet") == set(seen)
    counts = pd.read_parquet(tmp_path / "c.counts.parquet")
    wanted = {key: -1 if count is None else count for key, count in seen.items()}
    keys = zip(counts["checklist_id"], counts["scientific_name"], strict=True)
    assert dict(zip(keys, counts["observation_count"].fillna(-1).astype(int), strict=True)) == wanted
    for row in table.head(40).to_dict(orient="records"):
        line = checklists[row["checklist_id"]]
        assert row["longitude"] == float(line["LONGITUDE"])
        assert row["locality_id"] == line["LOCALITY ID"]
        assert row["protocol"] == line["PROTOCOL NAME"]
        if line["DURATION MINUTES"]:
            assert row["duration_hours"] == float(line["DURATION MINUTES"]) / 60
        else:
            assert np.isnan(row["duration_hours"])
        if line["PROTOCOL NAME"] == "Stationary":
            assert row["distance_km"] == 0
    detected = Counter(species for _, species in seen)
    assert dict(zip(found.species["scientific_name"], found.species["detections"], strict=True)) == detected


def test_prepare__audit__accounts_for_every_line(pair, tmp_path):
    found = prepare(pair.ebd, pair.sampling, tmp_path / "c.parquet", filters=Filters(**USUAL), min_detections=40)
    for name, path in (("checklists", pair.sampling), ("observations", pair.ebd)):
        steps = found.audit[found.audit["table"] == name]
        assert steps["left"].iloc[0] == sum(1 for _ in lines_of(path))
        assert (steps["left"].shift(1).iloc[1:] - steps["lost"].iloc[1:] == steps["left"].iloc[1:]).all()
    lost = found.audit.set_index(["table", "step"])["lost"]
    by_hand = sum(line["PROTOCOL NAME"] not in USUAL["protocols"] for line in lines_of(pair.sampling))
    assert lost["checklists", "protocol Stationary, Traveling"] == by_hand
    assert found.audit[found.audit["table"] == "checklists"]["left"].iloc[-1] == found.n_checklists
    assert (
        found.audit["left"].iloc[-1] == found.species["detections"].sum() == len(detections_in(tmp_path / "c.parquet"))
    )
    assert (found.species["detections"] >= 40).all()
    names = (tmp_path / "c.species.txt").read_text().splitlines()
    assert names == found.species["scientific_name"].tolist() == list(pd.read_parquet(tmp_path / "c.parquet"))[13:]
    pd.testing.assert_frame_equal(pd.read_csv(tmp_path / "c.audit.csv"), found.audit)
    notes = json.loads((tmp_path / "c.json").read_text())
    assert notes["n_species"] == len(names)
    assert notes["settings"]["filters"]["hours"] == [0.0, 6.0]
    assert not [path for path in tmp_path.iterdir() if path.name.startswith(".")]


# --- by hand -----------------------------------------------------------------------------------------------


def write_pair(folder, checklists, observations):
    """Write the two files from a few values each; the rest is empty or usual."""
    usual = {
        "COUNTRY CODE": "NA",
        "STATE CODE": "NA-KH",
        "LATITUDE": "-22.5",
        "LONGITUDE": "17.1",
        "OBSERVATION DATE": "2020-03-01",
        "TIME OBSERVATIONS STARTED": "09:30:00",
        "PROTOCOL NAME": "Traveling",
        "DURATION MINUTES": "60",
        "EFFORT DISTANCE KM": "2",
        "NUMBER OBSERVERS": "1",
        "ALL SPECIES REPORTED": "1",
        "GROUP IDENTIFIER": "",
        "LOCALITY ID": "L1",
        "OBSERVER ID": "obsr1",
    }
    events = {line["SAMPLING EVENT IDENTIFIER"]: usual | line for line in checklists}
    records = [
        events[line["SAMPLING EVENT IDENTIFIER"]]
        | {"COMMON NAME": line["SCIENTIFIC NAME"].lower(), "CATEGORY": "species"}
        | line
        for line in observations
    ]
    for path, lines in ((folder / "ebd.txt", records), (folder / "sampling.txt", list(events.values()))):
        text = ["\t".join(lines[0])] + ["\t".join(line.values()) for line in lines]
        path.write_text("\n".join(text) + "\n")
    return folder / "ebd.txt", folder / "sampling.txt"


def event(name, **more):
    return {"SAMPLING EVENT IDENTIFIER": name} | {key.replace("_", " ").upper(): value for key, value in more.items()}


def record(name, species, count):
    return {"SAMPLING EVENT IDENTIFIER": name, "SCIENTIFIC NAME": species, "OBSERVATION COUNT": count}


def test_prepare__groups_and_forms__are_merged_as_documented(tmp_path):
    """Forms are summed first and X wins; then the largest number of the members, X where none has one; 0 is absent."""
    files = write_pair(
        tmp_path,
        [
            event("S10", group_identifier="G1", duration_minutes="30", observer_id="a"),
            event("S9", group_identifier="G1", duration_minutes="90", observer_id="b"),
            event("S2"),
        ],
        [
            record("S9", "Turdus merula", "2"),
            record("S10", "Turdus merula", "3"),
            record("S10", "Turdus merula", "4"),  # a subspecies: 7 on this member, 2 on the other
            record("S9", "Parus major", "X"),
            record("S10", "Parus major", "5"),  # one member has a number
            record("S2", "Turdus merula", "1"),
            record("S2", "Turdus merula", ""),  # blank is X, and X wins
            record("S2", "Parus major", "0"),  # an absence
            record("S2", "Larus sp.", "9"),
            record("S2", "Larus argentatus/fuscus", "9"),
            record("S2", "Larus argentatus x fuscus", "9"),
            record("S9", "Columba palumbus", "X"),
            record("S10", "Columba palumbus", "0"),
        ],
    )
    found = prepare(*files, tmp_path / "c.parquet", counts=True)
    counts = pd.read_parquet(tmp_path / "c.counts.parquet").fillna({"observation_count": -1})
    assert sorted(zip(counts.checklist_id, counts.scientific_name, counts.observation_count, strict=True)) == [
        ("G1", "Columba palumbus", -1),
        ("G1", "Parus major", 5),
        ("G1", "Turdus merula", 7),
        ("S2", "Turdus merula", -1),
    ]
    table = pd.read_parquet(tmp_path / "c.parquet").set_index("checklist_id")
    assert table["duration_hours"].to_dict() == {"G1": 0.5, "S2": 1.0}  # "S10" comes before "S9" as text
    assert table["Parus major"].to_dict() == {"G1": 1, "S2": 0}
    assert found.species.set_index("scientific_name")["x"].to_dict() == {
        "Columba palumbus": 1,
        "Parus major": 0,
        "Turdus merula": 1,
    }
    steps = found.audit.set_index("step")["lost"]
    assert steps["not of a species (sp., slash, hybrid)"] == 3
    assert steps["forms summed to their species"] == 2
    assert steps["same species of several members of a group"] == 3
    assert steps["counted as 0, an absence"] == 1


def test_prepare__effort_columns__are_worked_out_by_hand(tmp_path):
    """Windhoek, UTC+2, 17.1 E: noon is 12:00 - 17.1/15 h + 2 h = 12:51:36, later by 12.3 minutes on 1 March: 13:04."""
    files = write_pair(
        tmp_path,
        [event("S1"), event("S2", protocol_name="Stationary", effort_distance_km="", time_observations_started="")],
        [record("S1", "Parus major", "1"), record("S2", "Parus major", "1")],
    )
    prepare(*files, tmp_path / "c.parquet")
    first, second = pd.read_parquet(tmp_path / "c.parquet").sort_values("checklist_id").to_dict(orient="records")
    assert first["hours_from_solar_noon"] == pytest.approx(10.0 - 13 - 4 / 60, abs=0.02)  # the middle of the hour
    assert (first["speed_kmh"], first["distance_km"], first["observers"], first["year"]) == (2, 2, 1, 2020)
    assert first["day_sin"] == pytest.approx(np.sin(2 * np.pi * 60 / 366))  # the 61st day of a leap year
    assert first["day_cos"] == pytest.approx(np.cos(2 * np.pi * 60 / 366))
    assert np.isnan(second["hours_from_solar_noon"])
    assert (second["distance_km"], second["speed_kmh"]) == (0, 0)


def test_prepare__namibia__is_no_missing_value(tmp_path):
    files = write_pair(
        tmp_path,
        [event("S1"), event("S2", country_code="ZA", state_code="ZA-NC")],
        [record("S1", "Parus major", "1"), record("S2", "Parus major", "1")],
    )
    prepare(*files, tmp_path / "c.parquet", filters=Filters(regions=("NA",)))
    assert pd.read_parquet(tmp_path / "c.parquet")["checklist_id"].tolist() == ["S1"]
    prepare(*files, tmp_path / "d.parquet", filters=Filters(regions=("ZA-NC", "NA-XX")))
    assert pd.read_parquet(tmp_path / "d.parquet")["checklist_id"].tolist() == ["S2"]


def test_prepare__counts_beyond_32_bits__stay_exact(tmp_path):
    huge = 2**53 + 1  # no float holds it
    files = write_pair(
        tmp_path, [event("S1")], [record("S1", "Parus major", str(huge)), record("S1", "Parus major", "2")]
    )
    prepare(*files, tmp_path / "c.parquet", counts=True)
    assert pd.read_parquet(tmp_path / "c.counts.parquet")["observation_count"].tolist() == [huge + 2]


@pytest.mark.parametrize("count", ["many", "-1", "1.5", str(2**63)])
def test_prepare__count_that_is_none__is_named(tmp_path, count):
    files = write_pair(tmp_path, [event("S1")], [record("S1", "Parus major", count)])
    with pytest.raises(DataError, match=rf"counts must be whole numbers .* got '{count}' \(OBSERVATION COUNT\)"):
        prepare(*files, tmp_path / "c.parquet")
    assert not list(tmp_path.glob("*c.parquet*"))


def test_prepare__bounds_across_the_date_line_and_dates_across_the_year(tmp_path):
    places = {"S1": ("179.5", "2019-12-24"), "S2": ("-179.5", "2020-01-02"), "S3": ("0.5", "2020-07-01")}
    files = write_pair(
        tmp_path,
        [event(name, longitude=x, observation_date=day) for name, (x, day) in places.items()],
        [record(name, "Parus major", "1") for name in places],
    )

    def left(**filters):
        prepare(*files, tmp_path / "c.parquet", filters=Filters(**filters))
        return sorted(pd.read_parquet(tmp_path / "c.parquet")["checklist_id"])

    assert left(bounds=(170, -50, -170, 0)) == ["S1", "S2"]
    assert left(bounds=(-170, -50, 170, 0)) == ["S3"]
    assert left(dates=("*-12-24", "*-01-02")) == ["S1", "S2"]
    assert left(dates=("2020-01-02", "2020-07-01")) == ["S2", "S3"]
    assert left(months=(7, 12)) == ["S1", "S3"]


def test_prepare__quotes_in_text__are_letters_like_others(tmp_path):
    """A quote that is opened and never closed must not swallow the lines after it."""
    words = ['"half a quote', 'two "whole" ones', 'ends with one"', '"', "it's"]
    checklists = [event(f"S{i}", locality=word, checklist_comments=word) for i, word in enumerate(words)]
    observations = [
        record(f"S{i}", "Parus major", "1") | {"SPECIES COMMENTS": word} for i, word in enumerate(reversed(words))
    ]
    prepare(*write_pair(tmp_path, checklists, observations), tmp_path / "c.parquet")
    found = pd.read_parquet(tmp_path / "c.parquet").set_index("checklist_id")
    assert sorted(found.index) == [f"S{i}" for i in range(len(words))]
    assert found["Parus major"].tolist() == [1] * len(words)


# --- awkward files -----------------------------------------------------------------------------------------


def rewritten(path, target, *, order=None, rename=None, newline="\n", tail="", head_tail=None, quote_names=False):
    """The same file with other columns, line ends and trailing tabs."""
    lines = list(lines_of(path))
    names = [name for name in lines[0] if name]
    if order is not None:
        np.random.default_rng(order).shuffle(names)
    shown = [(rename or {}).get(name, name) for name in names]
    head = "\t".join(f'"{name}"' if quote_names else name for name in shown) + (
        tail if head_tail is None else head_tail
    )
    text = [head] + ["\t".join(line[name] for name in names) + tail for line in lines]
    target.write_bytes((newline.join(text) + newline).encode())
    return target


@pytest.mark.parametrize(
    "how",
    [
        {"order": 1},
        {"rename": {"PROTOCOL NAME": "PROTOCOL TYPE", "OBSERVATION COUNT": "COUNT"}},
        {"rename": {"SAMPLING EVENT IDENTIFIER": "sampling_event_identifier", "LATITUDE": "latitude"}},
        {"newline": "\r\n"},
        {"newline": "\r\n", "tail": "\t", "order": 2},
        {"tail": "\t", "head_tail": ""},
        {"tail": "", "head_tail": "\t"},
        {"quote_names": True},
    ],
    ids=str,
)
def test_prepare__other_layouts__make_the_same_table(pair, tmp_path, how):
    prepare(pair.ebd, pair.sampling, tmp_path / "usual.parquet", filters=Filters(**USUAL))
    files = [rewritten(path, tmp_path / name, **how) for path, name in ((pair.ebd, "e.txt"), (pair.sampling, "s.txt"))]
    prepare(*files, tmp_path / "other.parquet", filters=Filters(**USUAL), piece_bytes=30_000)
    assert (tmp_path / "usual.parquet").read_bytes() == (tmp_path / "other.parquet").read_bytes()


def test_prepare__trailing_tabs_on_some_lines_only__makes_the_same_table(pair, tmp_path):
    prepare(pair.ebd, pair.sampling, tmp_path / "usual.parquet")
    lines = rewritten(pair.ebd, tmp_path / "e.txt").read_text().split("\n")
    (tmp_path / "e.txt").write_text(
        "\n".join(line + "\t" * (i % 3 == 1 and bool(line)) for i, line in enumerate(lines))
    )
    prepare(tmp_path / "e.txt", pair.sampling, tmp_path / "other.parquet")
    assert (tmp_path / "usual.parquet").read_bytes() == (tmp_path / "other.parquet").read_bytes()


def test_prepare__packed_files__make_the_same_table(pair, tmp_path):
    prepare(pair.ebd, pair.sampling, tmp_path / "plain.parquet")
    for path in (pair.ebd, pair.sampling):
        with gzip.open(tmp_path / f"{path.name}.gz", "wb") as packed:
            packed.write(path.read_bytes())
    with zipfile.ZipFile(tmp_path / "both.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        for path in (pair.ebd, pair.sampling):
            archive.write(path, path.name)
        archive.writestr("terms_of_use.pdf", "no table")
    prepare(
        tmp_path / f"{pair.ebd.name}.gz",
        tmp_path / f"{pair.sampling.name}.gz",
        tmp_path / "gz.parquet",
        piece_bytes=9999,
    )
    prepare(tmp_path / "both.zip", tmp_path / "both.zip", tmp_path / "zip.parquet")
    for name in ("gz", "zip"):
        assert (tmp_path / f"{name}.parquet").read_bytes() == (tmp_path / "plain.parquet").read_bytes()


def test_prepare__without_pipes__makes_the_same_table(pair, tmp_path, monkeypatch):
    prepare(pair.ebd, pair.sampling, tmp_path / "a.parquet")
    monkeypatch.delattr(os, "mkfifo")
    prepare(pair.ebd, pair.sampling, tmp_path / "b.parquet", piece_bytes=70_000)
    assert (tmp_path / "a.parquet").read_bytes() == (tmp_path / "b.parquet").read_bytes()


# --- going on after a stop ---------------------------------------------------------------------------------


class StoppedError(Exception):
    pass


@pytest.mark.parametrize("stage", ["sampling", "observations", "matched", "writing"])
def test_prepare__stopped_anywhere__goes_on_to_the_same_bytes(pair, tmp_path, stage):
    options = {"filters": Filters(**USUAL), "thin_km": 5.0, "test_share": 0.2, "piece_bytes": 40_000}
    prepare(pair.ebd, pair.sampling, tmp_path / "whole.parquet", **options)
    read = []

    def stop(name, done, total):
        if name == stage and done >= (0 if name == "matched" else 1) * (total or 0) / 2:
            raise StoppedError

    with pytest.raises(StoppedError):
        prepare(pair.ebd, pair.sampling, tmp_path / "c.parquet", progress=stop, **options)
    assert not (tmp_path / "c.parquet").exists()
    assert (tmp_path / ".c.parquet.work").is_dir()
    prepare(
        pair.ebd,
        pair.sampling,
        tmp_path / "c.parquet",
        progress=lambda name, done, total: read.append((name, done)),
        **options,
    )
    for end in (".parquet", "-test.parquet", ".species.txt", ".audit.csv"):
        assert (tmp_path / f"c{end}").read_bytes() == (tmp_path / f"whole{end}").read_bytes()
    first = min((done for name, done in read if name == "observations"), default=None)
    if stage == "observations":  # half of it was done, and is not read again
        assert first > pair.ebd.stat().st_size / 3
    if stage in ("matched", "writing"):
        assert first is None
    assert not (tmp_path / ".c.parquet.work").exists()


def test_prepare__other_settings_after_a_stop__start_afresh(pair, tmp_path):
    def stop(name, done, total):
        if name == "matched":
            raise StoppedError

    with pytest.raises(StoppedError):
        prepare(pair.ebd, pair.sampling, tmp_path / "c.parquet", progress=stop)
    prepare(pair.ebd, pair.sampling, tmp_path / "c.parquet", filters=Filters(**USUAL))
    prepare(pair.ebd, pair.sampling, tmp_path / "d.parquet", filters=Filters(**USUAL))
    assert (tmp_path / "c.parquet").read_bytes() == (tmp_path / "d.parquet").read_bytes()


def test_prepare__disk_full__says_so_and_leaves_no_half_table(pair, tmp_path, monkeypatch):
    import pyarrow.parquet

    def full(*_):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(pyarrow.parquet.ParquetWriter, "write_table", full)
        with pytest.raises(ConfigError, match=r"disk must have room and be readable; got .*No space left .*Make room"):
            prepare(pair.ebd, pair.sampling, tmp_path / "c.parquet")
    assert [path.name for path in tmp_path.iterdir()] == [".c.parquet.work"]
    read = []
    prepare(pair.ebd, pair.sampling, tmp_path / "c.parquet", progress=lambda name, *_: read.append(name))
    assert set(read) == {"writing"}  # the rest was done
    assert len(pd.read_parquet(tmp_path / "c.parquet")) > 0


# --- thinning and test rows --------------------------------------------------------------------------------


def test_prepare__thinned__has_one_checklist_a_cell_and_week_for_training_only(pair, tmp_path):
    found = prepare(pair.ebd, pair.sampling, tmp_path / "c.parquet", thin_km=30.0, test_share=0.25, seed=3)
    prepare(pair.ebd, pair.sampling, tmp_path / "all.parquet", test_share=0.25, seed=3)
    lines = checklists_of(pair.sampling)

    def cells(path):
        seen = Counter()
        for row in pd.read_parquet(path).to_dict(orient="records"):
            day = pd.Timestamp(lines[row["checklist_id"]]["OBSERVATION DATE"])
            level = np.floor(row["latitude"] * 111.195 / 30)
            side = np.cos(np.radians((level + 0.5) * 30 / 111.195))
            seen[level, np.floor(row["longitude"] * side * 111.195 / 30), day.year, (day.day_of_year - 1) // 7] += 1
        return seen

    thinned, everything = cells(tmp_path / "c.parquet"), cells(tmp_path / "all.parquet")
    assert set(thinned) == set(everything)
    assert set(thinned.values()) == {1}
    assert max(everything.values()) > 1
    assert (tmp_path / "c-test.parquet").read_bytes() == (tmp_path / "all-test.parquet").read_bytes()
    assert found.n_test == pytest.approx(0.25 * len(lines), rel=0.3)
    again = prepare(pair.ebd, pair.sampling, tmp_path / "e.parquet", thin_km=30.0, test_share=0.25, seed=4)
    assert (tmp_path / "e.parquet").read_bytes() != (tmp_path / "c.parquet").read_bytes()
    assert again.n_checklists > 0


def test_prepare__test_rows__are_whole_blocks_and_have_the_same_columns(pair, tmp_path):
    prepare(pair.ebd, pair.sampling, tmp_path / "c.parquet", test_share=0.3, test_block_km=40, min_detections=30)
    train, test = (pd.read_parquet(tmp_path / f"c{end}.parquet") for end in ("", "-test"))
    assert list(train) == list(test)
    assert not set(train["locality_id"]) & set(test["locality_id"])
    assert len(train) + len(test) == len(checklists_of(pair.sampling))


# --- refused -----------------------------------------------------------------------------------------------


def test_prepare__checklist_that_sampling_lacks__means_mixed_releases(pair, tmp_path):
    lines = pair.sampling.read_text().splitlines(keepends=True)
    seen = {line["SAMPLING EVENT IDENTIFIER"] for line in lines_of(pair.ebd) if line["ALL SPECIES REPORTED"] == "1"}
    lost = next(i for i, line in enumerate(lines[1:], start=1) if line.split("\t")[20] in seen)
    (tmp_path / "s.txt").write_text("".join(lines[:lost] + lines[lost + 1 :]))
    name = lines[lost].split("\t")[20]
    with pytest.raises(
        DataError, match=rf"must be in the sampling file; got 1 that are not, such as '{name}'.*two releases"
    ):
        prepare(pair.ebd, tmp_path / "s.txt", tmp_path / "c.parquet")
    assert not list(tmp_path.glob("*c.parquet*"))


def test_prepare__names_of_two_releases__are_refused(pair, tmp_path):
    other = tmp_path / "ebd_XX_relFeb-2025_sampling.txt"
    other.write_bytes(pair.sampling.read_bytes())
    with pytest.raises(DataError, match=r"eBird files must be of one release; got reljan-2025 .* and relfeb-2025"):
        prepare(pair.ebd, other, tmp_path / "c.parquet")


def test_prepare__damaged_files__are_named(pair, tmp_path):
    lines = pair.ebd.read_text().splitlines(keepends=True)
    cut = tmp_path / "cut.txt"
    cut.write_text("".join(lines[:50]) + lines[50][:200])
    with pytest.raises(
        DataError, match=r"lines must have the fields of the header; got \d+ instead of 52 \(line 51 of cut"
    ):
        prepare(cut, pair.sampling, tmp_path / "c.parquet")
    cut.write_text("".join(lines[:50]) + "a\t" * 80 + "\n" + lines[51])
    with pytest.raises(DataError, match=r"got 81 instead of 52 \(line 51 of cut\.txt\)"):
        prepare(cut, pair.sampling, tmp_path / "c.parquet")
    cut.write_text(lines[0])
    with pytest.raises(DataError, match="must have lines below its header; got none"):
        prepare(cut, pair.sampling, tmp_path / "c.parquet")
    packed = tmp_path / "cut.txt.gz"
    packed.write_bytes(gzip.compress(pair.ebd.read_bytes())[:20_000])
    with pytest.raises(DataError, match=r"eBird file must be whole; got 'cut\.txt\.gz' \(truncated or corrupt"):
        prepare(packed, pair.sampling, tmp_path / "c.parquet")
    (tmp_path / "bad.zip").write_bytes(b"PK no zip")
    with pytest.raises(DataError, match=r"eBird file must be whole; got 'bad\.zip'"):
        prepare(tmp_path / "bad.zip", pair.sampling, tmp_path / "c.parquet")
    doubled = tmp_path / "twice.txt"
    doubled.write_text(pair.sampling.read_text() + "".join(pair.sampling.read_text().splitlines(keepends=True)[1:]))
    with pytest.raises(DataError, match="checklists must stand once in the sampling file; got 'S1"):
        prepare(pair.ebd, doubled, tmp_path / "c.parquet")
    assert not list(tmp_path.glob("*c.parquet*"))


def test_prepare__wrong_files__are_named(pair, tmp_path):
    with pytest.raises(DataError, match=r"file of observations must be an EBD .*; got one of the other kind"):
        prepare(pair.sampling, pair.ebd, tmp_path / "c.parquet")
    with pytest.raises(DataError, match="eBird file must be an existing file; got"):
        prepare(tmp_path / "ebd.txt", pair.sampling, tmp_path / "c.parquet")
    bare = rewritten(pair.ebd, tmp_path / "e.txt", rename={"LATITUDE": "LATITUD"})
    with pytest.raises(DataError, match=r"must have the column\(s\) 'LATITUDE'; got none of that name.*'LATITUD'"):
        prepare(bare, pair.sampling, tmp_path / "c.parquet")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"filters": Filters(complete=False)}, "checklists must be complete where what they lack is to be an absence"),
        ({"min_detections": 10_000}, "a species must have at least 10000 detections to be a label; got"),
        ({"names": "latin"}, "names must be one of 'scientific', 'common'; got 'latin'"),
        ({"memory": "much"}, "memory must be an amount such as 1GB or 500MB; got 'much'"),
        ({"test_share": 1.0}, "test_share must be a share"),
        ({"test_share": 0.5, "test_block_km": 5000}, "test_block_km must leave blocks to learn from; got 5000 km"),
        ({"thin_km": 0}, "thin_km must be a number above 0; got 0"),
    ],
)
def test_prepare__settings_that_do_not_fit__are_named(pair, tmp_path, options, message):
    with pytest.raises(ConfigError, match=message):
        prepare(pair.ebd, pair.sampling, tmp_path / "c.parquet", **options)


def test_prepare__filters_that_leave_nothing__say_so(pair, tmp_path):
    with pytest.raises(DataError, match="filters must leave a checklist; got 0"):
        prepare(pair.ebd, pair.sampling, tmp_path / "c.parquet", filters=Filters(regions=("ZA",)))
    with pytest.raises(ConfigError, match=r"out must end in \.parquet; got 'c\.csv'"):
        prepare(pair.ebd, pair.sampling, tmp_path / "c.csv")


@pytest.mark.parametrize("character", ["\0", "\x0b", "\x85"])
def test_prepare__name_with_a_control_character__is_refused_and_nothing_is_written(pair, tmp_path, character):
    table = pd.read_csv(pair.ebd, sep="\t", dtype=str, keep_default_na=False)
    table["COMMON NAME"] = table["COMMON NAME"].str.replace("r", f"r{character}", n=1)
    table.to_csv(tmp_path / "ebd.txt", sep="\t", index=False)
    with pytest.raises(DataError, match=r"names of species must be text; got '.*The EBD is damaged"):
        prepare(tmp_path / "ebd.txt", pair.sampling, tmp_path / "c.parquet")
    assert [path.name for path in tmp_path.iterdir()] == ["ebd.txt"]


def test_prepare__places_beyond_the_earth__have_no_coordinates_and_are_counted(pair, tmp_path):
    """They have no time zone either; looking for one ended in a traceback."""
    odd = {"LATITUDE": ("413.5", "1.3", "nan"), "LONGITUDE": ("103.8", "-1e30", "103.8")}
    files, gone = [], None
    for path in (pair.sampling, pair.ebd):
        table = pd.read_csv(path, sep="\t", dtype=str, keep_default_na=False)
        gone = table["SAMPLING EVENT IDENTIFIER"].head(3).tolist() if gone is None else gone
        for column, values in odd.items():
            new = table["SAMPLING EVENT IDENTIFIER"].map(dict(zip(gone, values, strict=True)))
            table[column] = new.fillna(table[column])
        table.to_csv(tmp_path / path.name, sep="\t", index=False)
        files.append(tmp_path / path.name)
    found = prepare(files[1], files[0], tmp_path / "c.parquet", filters=Filters())
    steps = found.audit[found.audit["table"] == "checklists"].set_index("step")["lost"]
    assert steps["has coordinates"] == 3
    kept = set(pd.read_parquet(tmp_path / "c.parquet")["checklist_id"])
    assert kept
    assert kept.isdisjoint(gone)


@pytest.mark.parametrize(
    ("filters", "message"),
    [
        ({"regions": ("New York",)}, "region must be a code such as US, US-NY or US-NY-109; got 'New York'"),
        ({"bounds": (0, 50, 10, 40)}, "bounds must be west, south, east, north"),
        ({"dates": ("2020-05-01", "2019-05-01")}, "dates must be a first and a last day"),
        ({"dates": ("2020-05-01", "*-06-01")}, "dates must be a first and a last day"),
        ({"dates": ("2020-13-01", "2020-14-01")}, "dates must be a first and a last day"),
        ({"months": (0, 13)}, "months must be from 1 to 12; got 0, 13"),
        ({"hours": (6, 1)}, "hours must be from least to greatest"),
    ],
)
def test_filters__that_make_no_sense__are_refused(filters, message):
    with pytest.raises(ConfigError, match=message):
        Filters(**filters)


def test_prepare__common_names__stay_apart(tmp_path):
    files = write_pair(
        tmp_path,
        [event("S1")],
        [
            record("S1", "Parus major", "1") | {"COMMON NAME": "tit"},
            record("S1", "Parus minor", "1") | {"COMMON NAME": "tit"},
            record("S1", "Sitta villosa", "1") | {"COMMON NAME": "nuthatch"},
        ],
    )
    prepare(*files, tmp_path / "c.parquet", names="common")
    assert list(pd.read_parquet(tmp_path / "c.parquet"))[13:] == ["tit (Parus major)", "tit (Parus minor)", "nuthatch"]


# --- against auk -------------------------------------------------------------------------------------------


def auk(name):
    return pd.read_csv(AUK / name, dtype=str, keep_default_na=False)


def as_auk(table):
    """Observations as auk writes counts."""
    counts = ["X" if pd.isna(count) else str(int(count)) for count in table["observation_count"]]
    return set(zip(table["checklist_id"], table["scientific_name"], table["common_name"], counts, strict=True))


@needs_auk
@pytest.mark.data
@pytest.mark.parametrize(
    ("fixture", "reference"),
    [
        ("ebd-sample.txt", "a_sample_default.csv"),
        ("zerofill-ex_ebd.txt", "b_zerofill_ebd_unique.csv"),
        ("ebd-rollup-ex.txt", "c_rollup_ex.csv"),
    ],
)
def test_read_observations__fixtures__equal_auk(tmp_path, fixture, reference):
    wanted = auk(reference)
    found = read_observations(FIXTURES / fixture, tmp_path)
    columns = ("checklist_id", "scientific_name", "common_name", "observation_count")
    assert as_auk(found) == set(zip(*(wanted[name] for name in columns), strict=True))
    assert len(found) == len(wanted)


@needs_auk
@pytest.mark.data
def test_prepare__zero_filled_fixtures__equal_auk(tmp_path):
    pair = FIXTURES / "zerofill-ex_ebd.txt", FIXTURES / "zerofill-ex_sampling.txt"
    prepare(*pair, tmp_path / "c.parquet", counts=True)
    table = pd.read_parquet(tmp_path / "c.parquet")
    filled = auk("d_zerofill_default.csv")
    labels = table.set_index("checklist_id")[sorted(set(filled["scientific_name"]))]
    assert labels.size == len(filled) == 2118
    filled["seen"] = filled["species_observed"] == "TRUE"
    wanted = filled.pivot(index="checklist_id", columns="scientific_name", values="seen")
    pd.testing.assert_frame_equal(
        labels.sort_index().astype(bool),
        wanted.astype(bool),
        check_names=False,
        check_index_type=False,
        check_column_type=False,
    )
    counts = pd.read_parquet(tmp_path / "c.counts.parquet")
    seen = filled[filled["species_observed"] == "TRUE"]
    wanted = set(zip(seen["checklist_id"], seen["scientific_name"], seen["observation_count"], strict=True))
    assert {(checklist, species, count) for checklist, species, _, count in as_auk(counts)} == wanted
    checklists = auk("b_zerofill_sampling_unique.csv").set_index("checklist_id").loc[table["checklist_id"]]
    assert len(checklists) == len(table) == 706

    def numbers(column):
        return pd.to_numeric(checklists[column].replace("", None)).to_numpy(dtype=float)

    stationary = (checklists["protocol_name"] == "Stationary").to_numpy()
    np.testing.assert_allclose(table["duration_hours"], numbers("duration_minutes") / 60)
    np.testing.assert_allclose(table["distance_km"], np.where(stationary, 0, numbers("effort_distance_km")))
    np.testing.assert_allclose(table["observers"], numbers("number_observers"))
    np.testing.assert_allclose(table["latitude"], numbers("latitude"))
    assert table["locality_id"].tolist() == checklists["locality_id"].tolist()
    assert table["protocol"].tolist() == checklists["protocol_name"].tolist()


DATES = {"sample": ("2012-01-01", "2012-12-31"), "zerofill": ("2012-01-01", "2012-03-31")}
AUK_FILTERS = {
    "none": {},
    "protocol_traveling": {"protocols": ("Traveling",)},
    "protocol_stationary": {"protocols": ("Stationary",)},
    "protocol_trav_stat": {"protocols": ("Traveling", "Stationary")},
    "duration_0_300": {"hours": (0, 5)},
    "duration_0_60": {"hours": (0, 1)},
    "distance_0_10": {"kilometres": (0, 10)},
    "distance_1_10": {"kilometres": (1, 10)},
    "distance_0_10_miles": {"kilometres": (0, 16.09344)},
    "complete": {"complete": True},
    "date": {"dates": None},
    "date_wildcard": {"dates": ("*-05-01", "*-06-30")},
    "date_wildcard_wrap": {"dates": ("*-12-01", "*-01-31")},
    "all": {
        "protocols": ("Traveling", "Stationary"),
        "hours": (0, 5),
        "kilometres": (0, 10),
        "complete": True,
        "dates": None,
    },
}


@needs_auk
@pytest.mark.data
def test_filters__on_fixtures__leave_as_many_as_auk(tmp_path):
    for row in auk("e_filter_counts.csv").to_dict(orient="records"):
        options = dict(AUK_FILTERS[row["filter"]])
        if "dates" in options and options["dates"] is None:
            options["dates"] = DATES[row["set"]]
        filters = Filters(**{"complete": False} | options)
        name = "ebd-sample.txt" if row["set"] == "sample" else "zerofill-ex_ebd.txt"
        found = read_observations(FIXTURES / name, tmp_path, filters=filters)
        assert len(found) == int(row["read_ebd_default_rows"]), row
        if row["set"] == "zerofill":  # its checklists are all complete
            pair = FIXTURES / name, FIXTURES / "zerofill-ex_sampling.txt"
            made = prepare(*pair, tmp_path / "c.parquet", filters=Filters(**options))
            assert made.n_checklists == int(row["read_sampling_rows"]), row
            assert made.n_checklists * len(made.species) == int(row["zerofill_rows"]), row
            assert made.species["detections"].sum() == int(row["zerofill_detections"]), row
