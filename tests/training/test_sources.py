"""Rows from a Parquet table: every row once a pass, dealt evenly, mixed, in an order that the seed decides."""

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from hotvae.data.parquet import ParquetTable
from hotvae.features.rows import Rows
from hotvae.net.direct import DirectNet
from hotvae.training import sources
from hotvae.training.loop import fit_network
from hotvae.training.ranks import Ranks
from hotvae.training.settings import Training
from hotvae.training.sources import Streamed, _rebatched

N_ROWS = 900


def ready(frame, first):
    assert frame["row"].iloc[0] == first
    return Rows(frame[["row"]].to_numpy(np.float32) / N_ROWS, frame[["odd", "late"]].to_numpy(np.float32))


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    path = tmp_path_factory.mktemp("parquet") / "t.parquet"
    row = np.arange(N_ROWS)
    # Row groups of different sizes, as several writers leave them.
    import pyarrow as pa
    import pyarrow.parquet as pq

    whole = pa.Table.from_pandas(pd.DataFrame({"row": row, "odd": row % 2, "late": (row > 600) * 1}))
    with pq.ParquetWriter(path, whole.schema) as writer:
        for start, stop in ((0, 40), (40, 240), (240, 300), (300, 520), (520, 540), (540, 740), (740, 900)):
            writer.write_table(whole.slice(start, stop - start))
    return ParquetTable(path)


def rows_of(batch):
    return np.rint(batch.features[:, 0] * N_ROWS).astype(int).tolist()


@pytest.mark.parametrize("size", [1, 2, 3])
@pytest.mark.parametrize("leg_rows", [10_000, 300])
def test_batches__a_pass_of_all_processes__shows_every_row_once(table, size, leg_rows):
    source = [Streamed(table, ready, 32, 5, ranks=Ranks(rank, size), leg_rows=leg_rows) for rank in range(size)]
    assert len({part.n_legs for part in source}) == len({part.n_steps for part in source}) == 1
    n_legs = source[0].n_legs
    assert n_legs == (1 if leg_rows > N_ROWS else 3)
    for turn in range(2):
        seen = []
        for leg in range(n_legs):
            for part in source:
                batches = [rows_of(batch) for batch in part.batches(turn * n_legs + leg + 1)]
                assert len(batches) == part.n_steps
                assert max(map(len, batches)) - min(map(len, batches)) <= 1
                seen += [row for batch in batches for row in batch]
        assert sorted(seen) == list(range(N_ROWS))


def test_batches__several_processes__have_about_as_many_rows(table):
    counts = [
        sum(len(batch) for batch in Streamed(table, ready, 32, 5, ranks=Ranks(rank, 3)).batches(1)) for rank in range(3)
    ]
    assert sum(counts) == N_ROWS
    assert max(counts) - min(counts) < 0.15 * N_ROWS


def test_batches__another_pass_or_seed__another_order(table):
    def order(seed, epoch):
        return [rows_of(batch) for batch in Streamed(table, ready, 64, seed).batches(epoch)]

    assert order(1, 1) == order(1, 1)
    assert order(1, 1) != order(1, 2) != order(2, 2)


def test_batches__buffer_smaller_than_the_table__still_mixes_row_groups(table, monkeypatch):
    """300 rows wait at a time: a batch of 60 has rows from far apart."""
    monkeypatch.setattr(sources, "_WAITING_CELLS", 300 * 3)
    batches = [rows_of(batch) for batch in Streamed(table, ready, 60, 5).batches(1)]
    assert sorted(row for batch in batches for row in batch) == list(range(N_ROWS))
    assert np.mean([np.ptp(batch) for batch in batches]) > 300


@given(chunks=st.lists(st.integers(1, 7), min_size=1), n_batches=st.integers(1, 9))
def test_rebatched__any_chunks__same_rows_in_the_sizes_asked_for(chunks, n_batches):
    rows = np.arange(sum(chunks), dtype=np.float32)[:, None]
    parts = [Rows(part, part) for part in np.split(rows, np.cumsum(chunks)[:-1])]
    sizes = np.diff(np.arange(n_batches + 1) * len(rows) // n_batches)
    found = list(_rebatched(iter(parts), sizes))
    assert [len(batch) for batch in found] == sizes.tolist()
    assert np.concatenate([batch.features for batch in found]).ravel().tolist() == rows.ravel().tolist()


def fitted(source, **more):
    torch.manual_seed(0)
    network = DirectNet(1, 2, (32,))
    training = Training(max_epochs=6, batch_size=32, learning_rate=0.02, **more)
    history = fit_network(network, {"bce": 1.0}, source, None, training, seed=3)
    return network, history


def test_fit_network__streamed__learns_what_rows_in_memory_teach(table):
    whole = pd.concat([piece for group in table.row_groups for _, piece in table.frames(group)])
    _, here = fitted(ready(whole, 0))
    _, streamed = fitted(Streamed(table, ready, 32, 3))
    assert streamed.records[-1]["loss"] == pytest.approx(here.records[-1]["loss"], abs=0.02)
    assert streamed.records[-1]["loss"] < 0.75 * streamed.records[0]["loss"]


def test_fit_network__streamed_and_interrupted__ends_as_the_undisturbed_run(table, tmp_path):
    calls = []

    def failing(frame, first):
        calls.append(first)
        if len(calls) == 10:  # in the second of three legs of the first pass
            raise KeyboardInterrupt
        return ready(frame, first)

    whole, _ = fitted(Streamed(table, ready, 32, 3, leg_rows=300))
    with pytest.raises(KeyboardInterrupt):
        fitted(Streamed(table, failing, 32, 3, leg_rows=300), state_file=tmp_path / "state")
    resumed, history = fitted(Streamed(table, ready, 32, 3, leg_rows=300), state_file=tmp_path / "state")
    assert [record["epoch"] for record in history.records] == [1, 2, 3, 4, 5, 6]
    for name, weights in whole.state_dict().items():
        assert torch.equal(resumed.state_dict()[name], weights)
