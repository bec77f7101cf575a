"""Maps and predictions on Ray: same bytes as here, whatever dies on the way, and nothing lost or done twice."""

import os
import signal
import subprocess
import sys
import time

import numpy as np
import pandas as pd
import pytest

from hotvae.errors import ConfigError, DataError
from hotvae.geo.maps import MapOptions
from hotvae.jobs.items import Made
from hotvae.jobs.maps import map_model
from hotvae.jobs.predict import predict_stream, predict_table
from hotvae.scale.items import each_on_ray
from tests.geo.conftest import trained, write_raster  # noqa: F401
from tests.scale.conftest import workers

ray = pytest.importorskip("ray", reason="needs the extra ray")
pytestmark = [pytest.mark.ray, pytest.mark.slow]

N_TILES = 8


@pytest.fixture(scope="module")
def rasters(tmp_path_factory):
    """A strip of eight tiles."""
    place = tmp_path_factory.mktemp("strip")
    y, x = np.mgrid[0:24, 0 : 256 * N_TILES].astype(np.float32)
    write_raster(place / "rain.tif", 400 + x / 10)
    write_raster(place / "warmth.tif", 10 + y / 3)
    return [place / "rain.tif", place / "warmth.tif"]


def mapped(model, rasters, out, **more):
    options = MapOptions(n_draws=20, tolerance=0.0)
    return map_model(model, out, rasters=rasters, fixed={"hours": "1"}, options=options, pictures=False, **more)


def files_of(folder):
    return {path.name: path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


@pytest.fixture(scope="module")
def here(tmp_path_factory, trained, rasters):  # noqa: F811
    """The map without Ray."""
    out = tmp_path_factory.mktemp("here") / "maps"
    mapped(trained, rasters, out)
    return files_of(out)


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    """Rows in row groups that have nothing to do with the pieces."""
    random = np.random.default_rng(1)
    frame = pd.DataFrame({name: random.uniform(size=40_000) for name in ("rain", "warmth", "hours")})
    path = tmp_path_factory.mktemp("rows") / "new.parquet"
    (frame * [200, 10, 2] + [400, 10, 0.5]).to_parquet(path, row_group_size=7_000)
    return path


def predicted(model, table, out, **more):
    from hotvae import load_model

    predict_stream(load_model(model), table, out, rows_at_once=4_000, folder=model, **more)
    return out.read_bytes()


def test_map__two_nodes__same_bytes_as_without_ray(nodes, trained, rasters, here, tmp_path):  # noqa: F811
    nodes(1)
    told = []
    run = mapped(trained, rasters, tmp_path / "maps", each=each_on_ray, progress=lambda *done: told.append(done))
    assert files_of(tmp_path / "maps") == here
    assert told == [(n, N_TILES) for n in range(N_TILES + 1)]  # each tile once
    assert run.seconds["model"] > 0


def test_map__actor_killed_and_node_removed__same_bytes(head, nodes, trained, rasters, here, tmp_path):  # noqa: F811
    """Three nodes; after the first tile an actor is killed, after the third a whole node."""
    beside = nodes(2)
    told, killed = [], []

    def disturb(done, total):
        told.append(done)
        if done == 1:
            killed.append(workers("ray::_Worker")[0])
            os.kill(killed[0], signal.SIGKILL)
        if done == 3:
            head.remove_node(beside[0], allow_graceful=False)

    mapped(trained, rasters, tmp_path / "maps", each=each_on_ray, progress=disturb)
    assert killed
    assert told == list(range(N_TILES + 1))
    assert files_of(tmp_path / "maps") == here


def test_predict__node_removed__same_bytes_as_without_ray(head, nodes, trained, table, tmp_path):  # noqa: F811
    beside = nodes(1)
    told = []

    def disturb(done, total):
        told.append(done)
        if done == 8_000:
            head.remove_node(beside[0], allow_graceful=False)

    plain = predicted(trained, table, tmp_path / "plain.parquet")
    assert predicted(trained, table, tmp_path / "ray.parquet", each=each_on_ray, progress=disturb) == plain
    assert told == list(range(0, 40_001, 4_000))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["plain.parquet", "ray.parquet"]


def test_driver__killed_and_started_again__same_bytes(head, trained, rasters, here, tmp_path):  # noqa: F811
    """The command is killed once two tiles are there; the next one makes the others, and those only."""
    code = (
        "import sys; from pathlib import Path; from hotvae.scale.cluster import cluster; "
        "from tests.scale.test_items import mapped, each_on_ray\n"
        "with cluster(sys.argv[1]):\n"
        "    run = mapped(sys.argv[2], [Path(p) for p in sys.argv[5:]], sys.argv[3], each=each_on_ray)\n"
        "Path(sys.argv[4]).write_text(str(run.n_tiles_found))"
    )
    # Not by what is printed: Ray prints there, too, such as of nodes that other tests have removed.
    out, told = tmp_path / "maps", tmp_path / "told"
    command = [sys.executable, "-c", code, head.address, str(trained), str(out), str(told), *map(str, rasters)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        while process.poll() is None and len(list((out / ".tiles").glob("*.tile"))) < 2:
            time.sleep(0.01)
        process.kill()
    assert not told.exists()
    subprocess.run(command, stdout=subprocess.DEVNULL, check=True)
    assert 2 <= int(told.read_text()) < N_TILES
    assert files_of(out) == here


def test_each_on_ray__mistake_in_an_item__said_as_here(head, trained, tmp_path):  # noqa: F811
    pd.DataFrame({"rain": ["wet"] * 3, "warmth": 1.0, "hours": 1.0}).to_parquet(tmp_path / "t.parquet")
    with pytest.raises(DataError, match=r"column 'rain' must hold numbers, as in training; got text 'wet'"):
        predicted(trained, tmp_path / "t.parquet", tmp_path / "out.parquet", each=each_on_ray)


def test_predict_table__csv_on_ray__refused(trained, table, tmp_path):  # noqa: F811
    with pytest.raises(ConfigError, match=r"from Parquet to Parquet.*got 'new\.parquet' to 'out\.csv'"):
        predict_table(trained, table, tmp_path / "out.csv", each=each_on_ray)


def test_made__file_of_another_machine__said(tmp_path):
    (tmp_path / "there").write_text("tile")
    made = Made.of(tmp_path / "there")
    made.check()
    (tmp_path / "there").write_text("other")
    with pytest.raises(DataError, match=r"got another file at .*disk that all machines share"):
        made.check()
    (tmp_path / "there").unlink()
    with pytest.raises(DataError, match="must be seen from here; got none at"):
        made.check()
