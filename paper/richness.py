"""Richness of a map: quantiles carried over from some cells, against draws made at every cell.

    python -m paper.richness                       (needs HOTVAE_DATA_DIR)
    python -m paper.richness --render              (the stored result into docs/maps.md)

A model is trained on the training rows of bbs_like_ebird100; test rows are the cells of a map. 400 of them are drawn
for 200 times, as ``hotvae map`` does, and 5 and 95 % of the richness of others follow from the curve that was fitted.
For these others 1,000 joint draws are made: their quantiles are the truth that the carried ones are held against,
beside those of 200 draws of a cell's own (``--draw-every-cell``) and those of independent species. Written down: mean
width, root mean square error in species, and the share of all draws, and of the richness that was
observed, that lies within.

Writes ``paper/results/richness.json``.
"""

import argparse
import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from hotvae import HotVAEClassifier
from hotvae.data.catalog import load
from hotvae.estimators.recipe import Effort
from hotvae.files import write_text
from hotvae.geo.maps import MapModel, MapOptions, learn_spread, richness_moments
from paper import DOCS, RESULTS
from paper.runner import provenance
from paper.summaries import replace_marked

SET, N_DRAWN, N_CELLS, N_TRUE = "bbs_like_ebird100", 400, 600, 1_000


def measure(seed: int, effort: Effort) -> dict[str, Any]:
    """Fit, draw, compare."""
    named = load(SET)
    data = named.dataset.with_coordinates_as_features()
    train, test = (data.take(rows) for rows in (named.split.train, named.split.test))
    columns = list(data.feature_names)
    model = HotVAEClassifier(effort=effort, random_state=seed)
    model.fit(pd.DataFrame(np.asarray(train.features), columns=columns), train.labels)
    rows, observed = pd.DataFrame(np.asarray(test.features), columns=columns), np.asarray(test.labels).sum(axis=1)
    order = np.random.default_rng(seed).permutation(len(rows))
    drawn, cells = order[:N_DRAWN], order[N_DRAWN : N_DRAWN + N_CELLS]
    mapper = MapModel(model, tuple(columns), MapOptions(seed=seed))
    spread = learn_spread(mapper, rows.iloc[drawn])
    few = mapper.options.n_draws
    more = replace(mapper, options=MapOptions(n_draws=few + N_TRUE))
    draws = more.draw_richness(rows.iloc[cells], seed + 1)
    mean, deviation = richness_moments(mapper.predict(rows.iloc[cells]))
    truth = np.quantile(draws[few:], [0.05, 0.95], axis=0)
    ways = {
        "carried": spread.bounds(mean, deviation, data.n_labels),
        "own": np.quantile(draws[:few], [0.05, 0.95], axis=0),
        "independent": (mean - 1.645 * deviation, mean + 1.645 * deviation),
        "truth": truth,
    }
    found = {name: judge(np.asarray(ends), truth, draws[few:], observed[cells]) for name, ends in ways.items()}
    counts = {"cells": len(cells), "drawn": len(drawn), "draws": few, "true_draws": N_TRUE, "species": data.n_labels}
    return {"set": SET, "effort": effort, **counts, "printed_error": spread.error, "ways": found}


def judge(ends: NDArray[Any], truth: NDArray[Any], draws: NDArray[Any], observed: NDArray[Any]) -> dict[str, float]:
    """Compare the ends of intervals, shape (2, n_cells), with true ones.

    Examples
    --------
    >>> ends, truth = np.array([[1.0], [5.0]]), np.array([[2.0], [5.0]])
    >>> found = judge(ends, truth, np.array([[0], [1], [5], [9]]), np.array([4]))
    >>> found["width"], found["error_low"], found["error_high"], found["draws_within"], found["observed_within"]
    (4.0, 1.0, 0.0, 0.5, 1.0)
    """
    errors = np.sqrt(np.mean((ends - truth) ** 2, axis=1))
    return {
        "width": float(np.mean(ends[1] - ends[0])),
        "error_low": float(errors[0]),
        "error_high": float(errors[1]),
        "draws_within": float(np.mean((draws >= ends[0]) & (draws <= ends[1]))),
        "observed_within": float(np.mean((observed >= ends[0]) & (observed <= ends[1]))),
    }


def table(found: Mapping[str, Any]) -> str:
    """Say it in rows of Markdown."""
    names = {
        "carried": f"carried over from {found['drawn']} cells (the default)",
        "own": f"{found['draws']} draws of each cell (`--draw-every-cell`)",
        "independent": "independent species",
        "truth": f"{found['true_draws']:,} draws of each cell",
    }
    lines = [
        f"`{found['command']}`, {found['date'][:10]}, {found['cells']} test rows of `{found['set']}` "
        f"({found['species']} species):",
        "",
        "| 5 and 95 % of richness | width | error of 5 % | of 95 % | draws within | observed within |",
        "|---|---|---|---|---|---|",
    ]
    for name, title in names.items():
        way = found["ways"][name]
        ends = "– | –" if name == "truth" else f"{way['error_low']:.2f} | {way['error_high']:.2f}"
        shares = f"{100 * way['draws_within']:.1f} % | {100 * way['observed_within']:.1f} %"
        lines.append(f"| {title} | {way['width']:.1f} | {ends} | {shares} |")
    return "\n".join(lines)


def main(argv: Sequence[str] | None = None) -> None:
    """Measure, and write the result."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--effort", default="normal")
    parser.add_argument("--render", action="store_true", help="only write the stored result into docs/maps.md")
    options = parser.parse_args(argv)
    stored, page = RESULTS / "richness.json", DOCS / "maps.md"
    if not options.render:
        write_text(
            stored, json.dumps(measure(options.seed, options.effort) | provenance(options.seed), indent=1) + "\n"
        )
    text = f"\n{table(json.loads(stored.read_text(encoding='utf-8')))}\n\n"
    write_text(page, replace_marked(page.read_text(encoding="utf-8"), "richness", text))


if __name__ == "__main__":
    main()
