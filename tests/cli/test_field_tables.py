"""Tables as people keep them, through the commands: long ones, workbooks, vector files, archives."""

import json
import zipfile

import geopandas as gpd
import numpy as np
import pandas as pd
import pytest

from hotvae import load_model
from tests.cli.region import LABELS, region_table

CHEAP = ("--model", "logistic", "--split", "random", "--drop-single-class")


@pytest.fixture(scope="module")
def sites():
    return region_table(120)


def records_of(table):
    """Records of what was there, without those of what was not."""
    found = table.melt(id_vars="site", value_vars=LABELS, var_name="species", value_name="n")
    return found[found["n"] > 0].sample(frac=1, random_state=0)


@pytest.fixture(scope="module")
def long_model(sites, tmp_path_factory):
    """A model of records and visited sites, and of the same as one wide table."""
    from hotvae.cli import main

    folder = tmp_path_factory.mktemp("long")
    environment = [name for name in sites if name not in LABELS]
    sites[environment].to_csv(folder / "sites.csv", index=False)
    records_of(sites).to_csv(folder / "records.csv", index=False)
    sites.to_csv(folder / "wide.csv", index=False)
    roles = ["--coordinates", "easting_km,northing_km", "--quiet"]
    long = ["--long", "site,species,n", "--sites", str(folder / "sites.csv")]
    assert main(["train", str(folder / "records.csv"), *long, *roles, *CHEAP, "--out", str(folder / "long")]) == 0
    wide = ["--labels", "sp_*", "--id-column", "site"]
    assert main(["train", str(folder / "wide.csv"), *wide, *roles, *CHEAP, "--out", str(folder / "wide")]) == 0
    return folder


def test_train__long_table_and_sites__is_the_model_of_the_wide_table(long_model, sites, run, tmp_path):
    tables = []
    for name in ("long", "wide"):
        out = tmp_path / f"{name}.csv"
        assert run("predict", long_model / name, long_model / "sites.csv", "--out", out)[0] == 0
        tables.append(pd.read_csv(out))
    pd.testing.assert_frame_equal(*tables)
    assert list(tables[0]) == ["site", "easting_km", "northing_km", *LABELS]
    card = load_model(long_model / "long").extra_
    assert card["notes"][0] == "long table: site 'site', species 'species', count 'n'"
    assert card["left_out"] == {"site": "row ids"}


def test_evaluate__long_table__equals_the_wide_one(long_model, run):
    found = []
    for table, options in (
        ("wide.csv", ()),
        ("records.csv", ("--long", "auto", "--sites", long_model / "sites.csv")),
        ("sites.csv", ("--long", "site,species,n", "--label-table", long_model / "records.csv", "--id-column", "site")),
    ):
        code, printed, _ = run("evaluate", long_model / "wide", long_model / table, *options, "--json")
        assert code == 0
        found.append(json.loads(printed)["metrics"])
    assert found[0] == found[1] == found[2]


@pytest.fixture(scope="module")
def visits(sites, tmp_path_factory):
    """Records that carry the covariates of their sites, a table of these sites, and both as a Darwin Core archive."""
    folder = tmp_path_factory.mktemp("visits")
    environment = [name for name in sites if name not in LABELS]
    records = records_of(sites).merge(sites[environment], on="site")
    records.to_csv(folder / "records.csv", index=False)
    wide = sites[sites["site"].isin(records["site"])]
    wide.to_csv(folder / "wide.csv", index=False)
    write_archive(folder / "archive.zip", wide[environment].rename(columns={"site": "eventID"}), records)
    return folder


def write_archive(path, events, records):
    layout = 'encoding="UTF-8" fieldsTerminatedBy="\\t" linesTerminatedBy="\\n" ignoreHeaderLines="1"'
    parts = [
        ("core", "id", "Event", list(events)),
        ("extension", "coreid", "Occurrence", ["", "scientificName", "individualCount"]),
    ]
    meta = "<archive>"
    for tag, key, kind, terms in parts:
        fields = "".join(f'<field index="{i}" term="http://x/{term}"/>' for i, term in enumerate(terms) if term)
        files = f"<files><location>{kind}.txt</location></files>"
        meta += f'<{tag} {layout} rowType="http://x/{kind}">{files}<{key} index="0"/>{fields}</{tag}>'
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("meta.xml", meta + "</archive>")
        archive.writestr("Event.txt", events.to_csv(sep="\t", index=False))
        archive.writestr("Occurrence.txt", records[["site", "species", "n"]].to_csv(sep="\t", index=False))


def test_predict__records_or_archive__is_a_row_a_site_as_of_the_wide_table(long_model, visits, run, tmp_path):
    found = {}
    for name, more in (("wide.csv", []), ("records.csv", ["--long", "auto"]), ("archive.zip", [])):
        out = tmp_path / f"{name}.probs.csv"
        code, _, err = run("predict", long_model / "long", visits / name, *more, "--out", out)
        assert code == 0, err
        found[name] = pd.read_csv(out)
    by_site = found["wide.csv"].set_index("site")
    pd.testing.assert_frame_equal(found["records.csv"].set_index("site").loc[by_site.index], by_site)
    archive = found["archive.zip"].set_index("eventID").rename_axis("site")
    pd.testing.assert_frame_equal(archive.loc[by_site.index], by_site)


def test_evaluate_and_explain__records_or_archive__as_of_the_wide_table(long_model, visits, run, tmp_path):
    scores, pages = [], []
    for name, more in (("wide.csv", []), ("records.csv", ["--long", "site,species,n"]), ("archive.zip", [])):
        code, text, err = run("evaluate", long_model / "long", visits / name, *more, "--json")
        assert code == 0, err
        found = json.loads(text)["metrics"]  # rows have another order: sums differ in their last digits
        scores.append([found[name] for name in ("log_loss", "macro_f1", "mean_auc", "n_rows")])
        out = tmp_path / f"{name}.html"
        code, text, err = run(
            "explain", long_model / "long", visits / name, *more, "--rows", 20, "--json", "--out", out
        )
        assert code == 0, err
        pages.append({key: value for key, value in json.loads(text).items() if key.startswith("n_")})
    assert scores[0] == pytest.approx(scores[1])
    assert scores[0] == pytest.approx(scores[2])
    assert pages[0] == pages[1] == pages[2]


def test_train__records_to_choose_by__are_those_of_the_wide_table(sites, visits, run, fails, tmp_path):
    environment = [name for name in sites if name not in LABELS]
    records_of(sites[:60]).merge(sites[environment], on="site").to_csv(tmp_path / "records.csv", index=False)
    long = ["--long", "site,species,n"]
    roles = ["--coordinates", "easting_km,northing_km", "--drop-single-class", "--model", "logistic", "--json"]
    found = []
    for validation in ("records.csv", "wide.csv", "archive.zip"):
        more = ["--validation", visits / validation, "--out", tmp_path / validation.partition(".")[0]]
        code, text, err = run("train", tmp_path / "records.csv", *long, *roles, *more)
        assert code == 0, err
        scores = json.loads(text)["validation"]
        found.append([scores[name] for name in ("log_loss", "macro_f1", "mean_auc", "n_rows")])
    assert found[0] == pytest.approx(found[1])
    assert found[0] == pytest.approx(found[2])
    sites[environment].to_csv(tmp_path / "sites.csv", index=False)
    line = fails(
        *("train", tmp_path / "records.csv", *long, "--sites", tmp_path / "sites.csv", *roles),
        *("--validation", visits / "records.csv", "--out", tmp_path / "no"),
    )
    assert "validation must have a row a site" in line
    assert not (tmp_path / "no").exists()


def test_evaluate__predictions_with_coordinates__passes_over_them(long_model, run, tmp_path, fails):
    out = tmp_path / "p.csv"
    run("predict", long_model / "wide", long_model / "wide.csv", "--out", out)
    code, printed, _ = run("evaluate", out, long_model / "wide.csv", "--id-column", "site", "--json")
    assert code == 0
    assert json.loads(printed)["metrics"]["n_labels"] == len(LABELS)
    message = fails("evaluate", out, long_model / "wide.csv", "--id-column", "site", "--long", "auto")
    assert "--long, --sites and --sheet must go with a model" in message


def test_train__roles_of_columns__are_printed_in_full(long_model, run, tmp_path):
    typed = ["train", long_model / "wide.csv", "--labels", "sp_species_01:sp_species_05", "--id-column", "site", *CHEAP]
    code, _, err = run(*typed, "--drop", "northing_km,soil*,sp_species_06", "--out", tmp_path / "m")
    assert code == 0
    lines = err.splitlines()
    features = next(line for line in lines if line.startswith("features (")).split(": ")[1].split(", ")
    assert features == list(load_model(tmp_path / "m").feature_names_in_)
    assert "labels (5): sp_species_01, sp_species_02, sp_species_03, sp_species_04, sp_species_05" in lines
    left_out = "left out (4): site (row ids), soil_ph (dropped), northing_km (dropped), sp_species_06 (dropped)"
    assert left_out in [
        line.replace("northing_km (dropped), soil_ph (dropped)", "soil_ph (dropped), northing_km (dropped)")
        for line in lines
    ]


def test_train__species_among_the_features__are_named_in_a_warning(long_model, run, tmp_path):
    typed = [
        "train",
        long_model / "wide.csv",
        "--labels",
        "sp_species_0[1-4]",
        "--id-column",
        "site",
        *CHEAP,
        "--quiet",
    ]
    code, _, err = run(*typed, "--out", tmp_path / "m")
    assert code == 0
    assert "warning: features should not be species; got 2 that look like" in err
    assert "'sp_species_05', 'sp_species_06'" in err


def test_train_and_predict__geopackage_and_workbook__keep_ids_and_coordinates(sites, run, tmp_path):
    places = gpd.points_from_xy(sites["easting_km"] / 100 + 7, sites["northing_km"] / 100 + 50, crs="EPSG:4326")
    table = sites.drop(columns=["easting_km", "northing_km"])
    gpd.GeoDataFrame(table, geometry=places).to_file(tmp_path / "s.gpkg")
    typed = ["train", tmp_path / "s.gpkg", "--labels", "sp_*", "--id-column", "site", *CHEAP, "--quiet"]
    assert run(*typed, "--out", tmp_path / "m")[0] == 0
    card = load_model(tmp_path / "m").extra_
    assert card["crs"] == "EPSG:4326"
    assert card["coordinates"] == ["longitude", "latitude"]
    assert {"longitude", "latitude"} <= set(card["feature_names"])
    table.assign(longitude=places.x, latitude=places.y).to_excel(tmp_path / "s.xlsx", sheet_name="June", index=False)
    found = []
    for name, options in (("s.gpkg", ()), ("s.xlsx", ("--sheet", "June"))):
        out = tmp_path / f"{name}.csv"
        assert run("predict", tmp_path / "m", tmp_path / name, "--out", out, *options)[0] == 0
        found.append(pd.read_csv(out))
    pd.testing.assert_frame_equal(*found)
    assert list(found[0])[:3] == ["site", "longitude", "latitude"]
    np.testing.assert_allclose(found[0]["longitude"], places.x)


def test_predict__parquet_to_parquet__keeps_coordinates_and_cuts_labels_only(long_model, sites, run, tmp_path):
    sites.drop(columns=LABELS).to_parquet(tmp_path / "s.parquet")
    typed = [
        "predict",
        long_model / "wide",
        tmp_path / "s.parquet",
        "--out",
        tmp_path / "p.parquet",
        "--threshold",
        "0.4",
    ]
    assert run(*typed)[0] == 0
    probs, labels = (pd.read_parquet(tmp_path / name) for name in ("p.parquet", "p_binary.parquet"))
    assert list(probs) == list(labels) == ["site", "easting_km", "northing_km", *LABELS]
    assert probs["easting_km"].tolist() == labels["easting_km"].tolist() == sites["easting_km"].tolist()
    np.testing.assert_array_equal(labels[LABELS], probs[LABELS] >= 0.4)


def test_train__join_inner__says_what_is_lost(long_model, sites, run, fails, tmp_path):
    sites[["site", *LABELS]].iloc[5:].to_csv(tmp_path / "labels.csv", index=False)
    typed = ["train", long_model / "sites.csv", "--label-table", tmp_path / "labels.csv", "--id-column", "site", *CHEAP]
    assert "5 only in the first" in fails(*typed, "--out", tmp_path / "m")
    code, _, err = run(*typed, "--join", "inner", "--out", tmp_path / "m")
    assert code == 0
    assert "join inner: 5 rows only in the first table and 0 only in the label table are left out" in err


def test_train__labels_from_a_file__are_noted_without_its_folder(long_model, run, tmp_path):
    (tmp_path / "species.txt").write_text("\n".join(LABELS))
    typed = [
        "train",
        long_model / "wide.csv",
        "--labels",
        f"@{tmp_path / 'species.txt'}",
        "--id-column",
        "site",
        *CHEAP,
    ]
    assert run(*typed, "--quiet", "--out", tmp_path / "m")[0] == 0
    card = load_model(tmp_path / "m").extra_
    assert card["label_patterns"] == ["@species.txt"]
    assert "--labels @species.txt" in card["command"]
    assert str(tmp_path) not in json.dumps(card)
