"""Cases: a valid call of the command line with one file damaged, or one option that is odd.

A case is its kind and a number; the same two give the same case on every machine.
"""

import gzip
import io
import json
import random
import shutil
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from hotvae.checkpoint import CONFIG_FILE, MANIFEST_FILE, WEIGHTS_FILE, seal
from hotvae.cli import main
from tests.hostile.mutate import NASTY, NUMBERS, mutated_archive, mutated_bytes, mutated_text, mutated_value

LABELS = [f"sp_{number}" for number in range(4)]
READ = ("--labels", "sp_*", "--id-column", "site", "--coordinates", "lon,lat")
QUICK = ("--model", "prevalence", "--quiet")

_META = """<archive xmlns="http://rs.tdwg.org/dwc/text/">
<core encoding="UTF-8" fieldsTerminatedBy="," linesTerminatedBy="\\n" fieldsEnclosedBy='"' ignoreHeaderLines="1"
 rowType="http://rs.tdwg.org/dwc/terms/Event"><files><location>event.txt</location></files><id index="0"/>
<field index="1" term="http://rs.tdwg.org/dwc/terms/decimalLongitude"/>
<field index="2" term="http://rs.tdwg.org/dwc/terms/decimalLatitude"/>
<field index="3" term="http://rs.tdwg.org/dwc/terms/sampleSizeValue"/></core>
<extension encoding="UTF-8" fieldsTerminatedBy="," linesTerminatedBy="\\n" fieldsEnclosedBy='"' ignoreHeaderLines="1"
 rowType="http://rs.tdwg.org/dwc/terms/Occurrence"><files><location>occurrence.txt</location></files><coreid index="0"/>
<field index="1" term="http://rs.tdwg.org/dwc/terms/scientificName"/></extension></archive>"""

_CONFIG = {
    "labels": "sp_*",
    "id_column": "site",
    "coordinates": "lon,lat",
    "model": "ridge",
    "seed": 3,
    "validation_fraction": 0.25,
    "split": "random",
    "drop_single_class": True,
    "quiet": True,
    "join": "exact",
    "encoding": "utf-8",
}


@dataclass(frozen=True)
class Case:
    """What is typed, and where its result goes.

    Attributes
    ----------
    arguments : list of str
        Of the command line.
    out : Path or None
        What it would write.
    kept : str
        What may stay for the next run after a refusal.
    """

    arguments: list[str]
    out: Path | None = None
    kept: str = ""


class Workshop:
    """Valid tables and models in a folder, and a place for those that are damaged.

    Parameters
    ----------
    folder : Path
        Empty; everything of this process goes there.
    """

    def __init__(self, folder: Path) -> None:
        self.good, self.bench = folder / "good", folder / "bench"
        self.good.mkdir(parents=True)
        self._tables()
        for name, table, options in (
            ("prevalence", "sites.csv", (*READ, *QUICK)),
            ("ridge", "sites.csv", (*READ, "--model", "ridge", "--quiet")),
            (
                "network",
                "sites.csv",
                (*READ, "--model", "plain", "--epochs", "1", "--quiet", "--set", "encoder_widths=[4]"),
            ),
            ("default", "sites.csv", (*READ, "--effort", "quick", "--quiet")),
            ("arrays", "sites.npz", QUICK),
            ("sparse", "sparse.npz", QUICK),
        ):
            assert main(["train", str(self.good / table), *options, "--out", str(self.good / name)]) == 0
        self.content = {path.name: path.read_bytes() for path in self.good.iterdir() if path.is_file()}
        words = ("--bbox", "103.6,1.18,104.06,1.48", "--checklists", "60", "--species", "3")
        assert main(["ebird", "example", str(self.good / "ebird"), *words]) == 0
        self.ebird = tuple(sorted(path.name for path in (self.good / "ebird").glob("*.txt")))
        self.content |= {name: (self.good / "ebird" / name).read_bytes() for name in self.ebird}

    def _tables(self) -> None:
        draw = np.random.default_rng(5)
        n = 40
        frame = pd.DataFrame(
            {
                "site": [f"s{i}" for i in range(n)],
                "depth": draw.normal(size=n).round(3),
                "habitat": draw.choice(["bog", "fen", "oak wood"], n),
                "lon": draw.uniform(0, 5, n).round(4),
                "lat": draw.uniform(40, 45, n).round(4),
            }
        )
        for place, name in enumerate(LABELS):
            frame[name] = (draw.random(n) < 1 / (1 + np.exp(place - frame["depth"]))).astype(int)
            frame.loc[place, name] = 1
            frame.loc[place + 10, name] = 0
        good = self.good
        frame.to_csv(good / "sites.csv", index=False)
        frame.to_csv(good / "sites.tsv", index=False, sep="\t")
        (good / "sites.csv.gz").write_bytes(gzip.compress((good / "sites.csv").read_bytes(), mtime=0))
        frame.to_parquet(good / "sites.parquet", index=False)
        frame.to_excel(good / "sites.xlsx", index=False)
        frame[["site", *LABELS]].to_csv(good / "labels.csv", index=False)
        frame[["site", *LABELS[:2]]].head(9).to_csv(good / "given.csv", index=False)
        long = frame.melt(["site"], LABELS, "species", "count").query("count > 0")
        long.to_csv(good / "records.csv", index=False)
        features = frame[["depth", "lon"]].to_numpy()
        np.savez(
            good / "sites.npz",
            X=features,
            Y=frame[LABELS],
            feature_names=["depth", "lon"],
            coords=frame[["lon", "lat"]],
        )
        np.savez(
            good / "sparse.npz",
            X_data=np.ones(n),
            X_indices=np.arange(n) % 7,
            X_indptr=np.arange(n + 1),
            X_shape=np.array([n, 7]),
            Y=frame[LABELS],
        )
        header = ["@relation x", "@attribute depth numeric", "@attribute 'my habitat' {bog,fen,'oak wood'}"]
        header += [f"@attribute {name} {{0,1}}" for name in LABELS]
        rows = [
            f"{row.depth},'{row.habitat}'," + ",".join(str(row[name]) for name in LABELS) for _, row in frame.iterrows()
        ]
        (good / "sites.arff").write_text("\n".join([*header, "@data", *rows, ""]))
        places = [
            {
                "type": "Feature",
                "properties": {name: row[name] for name in ("site", "depth", "habitat", *LABELS)},
                "geometry": {"type": "Point", "coordinates": [row["lon"], row["lat"]]},
            }
            for row in frame.to_dict("records")
        ]
        (good / "sites.geojson").write_text(json.dumps({"type": "FeatureCollection", "features": places}, indent=0))
        archive = io.BytesIO()
        with zipfile.ZipFile(archive, "w") as opened:
            opened.writestr("meta.xml", _META)
            opened.writestr("event.txt", frame[["site", "lon", "lat", "depth"]].to_csv(index=False))
            opened.writestr("occurrence.txt", long[["site", "species"]].to_csv(index=False))
        (good / "events.zip").write_bytes(archive.getvalue())
        self._land()
        (good / "edges.csv").write_text("label_a,label_b\nsp_0,sp_1\nsp_1,sp_2\n")
        (good / "tree.nwk").write_text("((sp_0:1,sp_1:1):2,(sp_2:1.5,sp_3:1.5):1.5);")
        (good / "names.txt").write_text("\n".join(LABELS) + "\n")
        (good / "probs.csv").write_text(frame[["site", *LABELS]].to_csv(index=False))

    def _land(self) -> None:
        """Write a raster of numbers, one of classes, and a region, where the sites are."""
        import rasterio

        draw = np.random.default_rng(6)
        for name, values in (
            ("rain.tif", draw.normal(size=(20, 20)).astype("float32")),
            ("cover.tif", draw.integers(0, 4, (20, 20)).astype("uint8")),
        ):
            size = {"height": 20, "width": 20, "count": 1, "dtype": values.dtype}
            place = {"crs": "EPSG:4326", "transform": rasterio.Affine(0.25, 0, 0, 0, -0.25, 45)}
            with rasterio.open(self.good / name, "w", driver="GTiff", **size, **place) as raster:
                raster.write(values, 1)
        corners = [[1.0, 41.0], [3.0, 41.0], [3.0, 43.0], [1.5, 42.0], [1.0, 41.0]]
        shape = {"type": "Polygon", "coordinates": [corners]}
        outline = {"type": "Feature", "properties": {"name": "here"}, "geometry": shape}
        (self.good / "region.geojson").write_text(json.dumps({"type": "FeatureCollection", "features": [outline]}))

    def make(self, kind: str, number: int) -> Case:
        """Lay out a case on the empty bench."""
        shutil.rmtree(self.bench, ignore_errors=True)
        self.bench.mkdir()
        return KINDS[kind](self, random.Random(f"{kind} {number}"))

    def put(self, name: str, content: str | bytes, as_name: str | None = None) -> str:
        """Write a damaged file, and return its path."""
        path = self.bench / (as_name or name)
        path.write_bytes(content.encode("utf-8", "surrogatepass") if isinstance(content, str) else content)
        return str(path)

    def damaged(self, name: str, random_: random.Random) -> str:
        """Write a file with some damage, and return its path."""
        content = self.content[name]
        if name.endswith((".npz", ".zip", ".xlsx")):
            return self.put(name, mutated_archive(content, random_))
        if name.endswith(".gz") and random_.random() < 0.7:
            return self.put(name, gzip.compress(mutated_bytes(gzip.decompress(content), random_), mtime=0))
        if name.endswith((".parquet", ".gz", ".tif")) or random_.random() < 0.1:
            return self.put(name, mutated_bytes(content, random_))
        return self.put(name, mutated_text(content.decode(), random_))

    def train(self, table: str, *options: str) -> Case:
        """Train on a table."""
        return Case(["train", table, *options, "--out", str(self.bench / "model")], self.bench / "model")

    def predict(self, model: str | Path, table: str, *options: str, suffix: str = ".csv") -> Case:
        """Predict a table."""
        out = self.bench / f"probs{suffix}"
        return Case(["predict", str(model), table, "--out", str(out), *options], out)

    def file(self, name: str) -> str:
        """Return the path of a good file."""
        return str(self.good / name)


# --- claims ----------------------------------------------------------------------------------------------

LARGE = (2**15, 2**24, 2**28, 2**31 - 1, 2**63 - 1, 1e308)
"""What a description may claim a size to be."""


def claims(shop: Workshop, every: int = 1) -> Iterator[tuple[str, Case]]:
    """Put a large number in the place of each value of each model's description, sealed anew, one after the other."""
    configs = {
        name: json.loads((shop.good / name / CONFIG_FILE).read_text())
        for name in ("prevalence", "ridge", "network", "arrays", "default")
    }
    edits = [(name, path, number) for name in configs for path in _places(configs[name]) for number in LARGE]
    for name, path, number in edits[::every]:
        shutil.rmtree(shop.bench, ignore_errors=True)
        shutil.copytree(shop.good / name, shop.bench / "bad")
        (shop.bench / "bad" / CONFIG_FILE).write_text(json.dumps(_with_value(configs[name], path, number)))
        seal(shop.bench / "bad")
        table = shop.file("sites.npz" if name == "arrays" else "sites.csv")
        yield f"{name} {path} {number}", shop.predict(shop.bench / "bad", table)


def _places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Name every place of what JSON holds; of a list the first three items."""
    yield path
    inside = value.items() if isinstance(value, dict) else enumerate(value[:3]) if isinstance(value, list) else ()
    for name, item in inside:
        yield from _places(item, (*path, name))


def _with_value(value: Any, path: tuple[Any, ...], new: Any) -> Any:
    if not path:
        return new
    changed = dict(value) if isinstance(value, dict) else list(value)
    changed[path[0]] = _with_value(value[path[0]], path[1:], new)
    return changed


# --- kinds -----------------------------------------------------------------------------------------------

_WIDE = ("sites.csv", "sites.tsv", "sites.csv.gz", "sites.parquet", "sites.xlsx", "sites.geojson")


def _trained_table(shop: Workshop, random_: random.Random) -> Case:
    name = random_.choice((*_WIDE, "sites.csv", "sites.csv", "sites.arff", "sites.npz", "sparse.npz"))
    read = {"sites.arff": ("--labels", "sp_*"), "sites.npz": (), "sparse.npz": ()}.get(name, READ)
    read = ("--labels", "sp_*") if name == "sites.geojson" else read
    if random_.random() < 0.2 and name not in ("sites.npz", "sparse.npz"):
        read = (*read, "--presence")
    return shop.train(shop.damaged(name, random_), *read, *QUICK)


def _predicted_table(shop: Workshop, random_: random.Random) -> Case:
    name = random_.choice((*_WIDE, "sites.npz", "sparse.npz", "sites.parquet"))
    model = {"sites.npz": "arrays", "sparse.npz": "sparse"}.get(name) or random_.choice(
        ("prevalence", "ridge", "network")
    )
    options = ("--ignore-unknown",) if random_.random() < 0.3 else ()
    suffix = random_.choice((".csv", ".tsv", ".csv.gz", ".parquet"))
    return shop.predict(shop.good / model, shop.damaged(name, random_), *options, suffix=suffix)


def _second_table(shop: Workshop, random_: random.Random) -> Case:
    what = random_.choice(("labels", "given", "records", "sites", "names", "validation", "graph", "evaluate"))
    bad = shop.damaged
    if what == "labels":
        table = shop.put("features.csv", pd.read_csv(shop.file("sites.csv")).drop(columns=LABELS).to_csv(index=False))
        join = ("--join", random_.choice(("exact", "inner")))
        return shop.train(table, "--label-table", bad("labels.csv", random_), "--id-column", "site", *join, *QUICK)
    if what == "given":
        return shop.predict(shop.good / "ridge", shop.file("sites.csv"), "--given", bad("given.csv", random_))
    if what == "records":
        return shop.train(bad("records.csv", random_), "--long", random_.choice(("auto", "site,species,count")), *QUICK)
    if what == "sites":
        table = shop.put(
            "visits.csv",
            mutated_text(pd.read_csv(shop.file("sites.csv")).drop(columns=LABELS).to_csv(index=False), random_),
        )
        return shop.train(shop.file("records.csv"), "--long", "site,species,count", "--sites", table, *QUICK)
    if what == "names":
        return shop.train(
            shop.file("sites.csv"), "--labels", "@" + bad("names.txt", random_), "--id-column", "site", *QUICK
        )
    if what == "validation":
        return shop.train(shop.file("sites.csv"), *READ, "--validation", bad("sites.csv", random_), *QUICK)
    if what == "graph":
        graph = bad(random_.choice(("edges.csv", "tree.nwk")), random_)
        few = (
            "--recipe",
            "network",
            "--epochs",
            "1",
            "--dim",
            "4",
            "--layers",
            "1",
            "--set",
            "encoder_widths=[4]",
            "--quiet",
        )
        return shop.train(shop.file("sites.csv"), *READ, "--graph", graph, *few)
    return Case(["evaluate", str(shop.good / "ridge"), bad("sites.csv", random_)])


def _archive(shop: Workshop, random_: random.Random) -> Case:
    return shop.train(shop.damaged("events.zip", random_), *QUICK)


def _odd(random_: random.Random) -> Any:
    return random_.choice([None, True, [], [1], ["sp_0"], {"a": 1}, 1.5, "x", "auto", *NUMBERS, *NASTY])


def _config(shop: Workshop, random_: random.Random) -> Case:
    values: dict[str, Any] = dict(_CONFIG)
    for _ in range(random_.choice((1, 1, 2))):
        more = (
            "out",
            "labels",
            "drop",
            "groups",
            "graph",
            "fold",
            "max_epochs",
            "threads",
            "recipe",
            "effort",
            "data",
            "alpha",
        )
        values[random_.choice((*values, *more))] = _odd(random_)
    kind = random_.choice((".toml", ".yaml"))
    text = (
        "\n".join(f"{name}: {json.dumps(value)}" for name, value in values.items())
        if kind == ".yaml"
        else "\n".join(f"{name} = {json.dumps(value)}" for name, value in values.items() if value is not None)
    )
    if random_.random() < 0.6:
        text = mutated_text(text, random_)
    config = shop.put(f"settings{kind}", text + "\n")
    return shop.train(shop.file("sites.csv"), "--config", config, "--model", "prevalence", "--quiet")


def _options(shop: Workshop, random_: random.Random) -> Case:
    """Give options odd values; paths stay on the bench."""
    odd = str(
        random_.choice(
            [*NASTY, *NUMBERS, "--x", "-1", "sp_0:sp_2", "lon,lat", "site,species", "a,b,c", "random", "latin-1"]
        )
    )
    odd = odd.replace("/", "_")
    train = (
        "--labels",
        "--id-column",
        "--coordinates",
        "--groups",
        "--drop",
        "--split",
        "--block-size",
        "--seed",
        "--decimal",
    )
    train += (
        "--encoding",
        "--validation-fraction",
        "--set",
        "--model",
        "--threads",
        "--sheet",
        "--join",
        "--long",
        "--fold",
    )
    predict = (
        "--binary",
        "--threshold",
        "--list",
        "--empty",
        "--id-column",
        "--encoding",
        "--decimal",
        "--threads",
        "--sheet",
    )
    if random_.random() < 0.6:
        values = {"--labels": "sp_*", "--id-column": "site", "--model": "prevalence", random_.choice(train): odd}
        flat = [part for pair in values.items() for part in pair]
        return shop.train(shop.file(random_.choice(("sites.csv", "sites.parquet", "sites.arff"))), *flat, "--quiet")
    flat = [random_.choice(predict), odd]
    return shop.predict(shop.good / random_.choice(("ridge", "prevalence")), shop.file("sites.csv"), *flat)


def _model(shop: Workshop, random_: random.Random) -> Case:
    """Damage a model folder: files as they are, or a config that a liar has sealed anew."""
    source = shop.good / random_.choice(("prevalence", "ridge", "network", "arrays", "default", "default"))
    folder = shop.bench / "bad"
    shutil.copytree(source, folder)
    name = random_.choice((CONFIG_FILE, WEIGHTS_FILE, MANIFEST_FILE))
    if random_.random() < 0.6:
        config = json.loads((folder / CONFIG_FILE).read_text())
        for _ in range(random_.choice((1, 1, 3))):
            config = mutated_value(config, random_)
        (folder / CONFIG_FILE).write_text(json.dumps(config))
        seal(folder)
    elif random_.random() < 0.1:
        (folder / name).unlink()
    else:
        (folder / name).write_bytes(mutated_bytes((folder / name).read_bytes(), random_))
        if random_.random() < 0.3:
            seal(folder)
    if random_.random() < 0.25:
        return Case(["info", str(folder)])
    if source.name == "default" and random_.random() < 0.3:
        return shop.predict(folder, shop.file("sites.csv"), "--given", shop.file("given.csv"))
    table = "sites.npz" if source.name == "arrays" else "sites.csv"
    return shop.predict(folder, shop.file(table), *(("--threshold", "0.5") if random_.random() < 0.2 else ()))


def _land(shop: Workshop, random_: random.Random) -> Case:
    """Read rasters at places, or lay a grid over a region."""
    rasters = [shop.file("rain.tif"), shop.file("cover.tif") + random_.choice(("", ":classes"))]
    radius = random_.choice(("0", "0", "20000"))
    what = random_.choice(("table", "raster", "region", "numbers"))
    if what == "raster":
        place = random_.randrange(2)
        rasters[place] = shop.damaged(Path(rasters[place].partition(":")[0]).name, random_)
    named = [word for raster in rasters for word in ("--raster", raster)]
    if what == "numbers":
        odd = str(random_.choice([*NUMBERS, "nan", "inf", "x", "EPSG:3035", "EPSG:4326", "lon,lat", "1e-9"]))
        named += [random_.choice(("--radius", "--crs")), odd]
    if what == "region" or random_.random() < 0.4:
        region = shop.damaged("region.geojson", random_) if what == "region" else shop.file("region.geojson")
        out = shop.bench / "cells.parquet"
        words = ["grid", "--region", region, "--resolution", random_.choice(("30000", "50000"))]
        return Case([*words, *named, "--radius", radius, "--out", str(out)], out)
    table = shop.damaged("sites.csv", random_) if what == "table" else shop.file("sites.csv")
    out = shop.bench / random_.choice(("seen.csv", "seen.parquet"))
    return Case(["annotate", table, "--coordinates", "lon,lat", "--radius", radius, *named, "--out", str(out)], out)


def _ebird(shop: Workshop, random_: random.Random) -> Case:
    """Prepare eBird's two files, one of them damaged."""
    bad = random_.choice(shop.ebird)
    paths = [shop.damaged(name, random_) if name == bad else shop.put(name, shop.content[name]) for name in shop.ebird]
    out = shop.bench / "checklists.parquet"
    # Too few detections: the reading of files of many gigabytes stays for the next try.
    return Case(["ebird", "prepare", *paths, "--out", str(out)], out, f".{out.name}.work")


KINDS: dict[str, Callable[[Workshop, random.Random], Case]] = {
    "table to train on": _trained_table,
    "table to predict": _predicted_table,
    "second table": _second_table,
    "archive": _archive,
    "settings": _config,
    "options": _options,
    "model": _model,
    "land": _land,
    "eBird": _ebird,
}
"""What is attacked."""
