"""Results of the smoke version of every experiment, made once in this process."""

import numpy as np
import pytest

from paper.cells import recipe_of, run_cell
from paper.experiments import EXPERIMENTS
from paper.store import Store, fit_fingerprint, part_path


def stored_line(cell, measured):
    """What the runner stores of a cell that is done."""
    return {
        "cell": cell.to_dict(),
        "fit": fit_fingerprint(cell, recipe_of(cell).to_dict()),
        "status": "done",
        **measured.line,
        "seconds": 2.0,
        "date": "2026-01-02T03:04:05+00:00",
        "revision": "abc",
        "command": "hotvae benchmark",
    }


@pytest.fixture(scope="session")
def smoke_results():
    """Every smoke cell and what it gave, by place."""
    return {
        cell.place: (cell, run_cell(cell))
        for experiment in EXPERIMENTS.values()
        for cell in experiment.cells(smoke=True)
    }


@pytest.fixture(scope="session")
def smoke_store(smoke_results, tmp_path_factory):
    """The same in a store, with the values of single rows."""
    store = Store(tmp_path_factory.mktemp("results"))
    store.make_rows_folder()
    for cell, measured in smoke_results.values():
        line = stored_line(cell, measured)
        store.append(line)
        for part, rows in {"": measured.rows, **measured.parts}.items():
            np.savez_compressed(part_path(store.rows_path(line["fit"]), part), **rows)
    return store
