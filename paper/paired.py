"""Is one model better than another, or were the test rows kind to it? A paired bootstrap over test rows.

Every model is measured again on the same 1,000 resamples of the test rows, so that differences of two models are
differences on the same rows. The comparisons are kept in ``paired.json`` beside the results: the values of single rows,
which are large, are not needed any more once it is written.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hotvae.files import write_text
from paper.experiments import EXPERIMENTS, Experiment, Variant
from paper.store import DONE, Store

METRICS = ("log_loss", "example_f1", "micro_f1", "macro_f1", "hamming_accuracy")
"""Measures that are compared; all but the first are better when larger."""

N_RESAMPLES = 1000
FILE = "paired.json"
_RESAMPLES_AT_ONCE = 200
_SHARE = 95

Values = dict[str, NDArray[np.float64]]
Groups = dict[tuple[str, str, int], list[dict[str, Any]]]


def resampled_values(rows: Mapping[str, NDArray[Any]], n_resamples: int = N_RESAMPLES) -> Values:
    """Measure a model on all test rows and on resamples of them.

    Parameters
    ----------
    rows : mapping of str to ndarray
        Values of single rows, as :func:`~paper.cells.run_cell` returns them.
    n_resamples : int
        How often rows are drawn with replacement; the draws depend on the rows alone, so that they are the same for
        every model.

    Returns
    -------
    dict of str to ndarray of shape (1 + n_resamples,)
        By measure; first the value of all rows.

    Examples
    --------
    >>> rows = {
    ...     "row": np.arange(2), "n_labels": np.array(1), "log_loss": np.array([0.2, 0.4]), "n_observed": np.ones(2),
    ...     "positive": np.packbits([[1], [1]], axis=1),
    ... } | {f"predicted_{name}": np.packbits([[1], [0]], axis=1) for name in METRICS[1:]}
    >>> values = resampled_values(rows, 3)
    >>> values["hamming_accuracy"]
    array([0.5, ...])
    >>> round(float(values["micro_f1"][0]), 4)
    0.6667
    """
    n_rows, n_labels = len(rows["row"]), int(rows["n_labels"])

    def bits(name: str) -> NDArray[np.float32]:
        unpacked: NDArray[np.float32] = np.unpackbits(rows[name], axis=1, count=n_labels).astype(np.float32)
        return unpacked

    observed = bits("observed") if "observed" in rows else np.ones((n_rows, n_labels), dtype=np.float32)
    actual = bits("positive") * observed
    told = {name: bits(f"predicted_{name}") * observed for name in METRICS[1:]}
    chunks = [_measure(np.ones((1, n_rows), dtype=np.float32), rows, observed, actual, told)]
    chunks += [_measure(weights, rows, observed, actual, told) for weights in resamples(rows["row"], n_resamples)]
    return {name: np.concatenate([chunk[name] for chunk in chunks]) for name in METRICS}


def resamples(rows: NDArray[Any], n_resamples: int = N_RESAMPLES) -> Iterator[NDArray[np.float32]]:
    """Yield how often each row is drawn, in pieces of shape (some resamples, n_rows); the same for every model.

    Examples
    --------
    >>> [weights.sum(axis=1).tolist() for weights in resamples(np.arange(4), 3)]
    [[4.0, 4.0, 4.0]]
    """
    n_rows = len(rows)
    random = np.random.default_rng(rows.astype(np.int64))
    for start in range(0, n_resamples, _RESAMPLES_AT_ONCE):
        n_now = min(_RESAMPLES_AT_ONCE, n_resamples - start)
        yield random.multinomial(n_rows, np.full(n_rows, 1 / n_rows), size=n_now).astype(np.float32)


def _measure(
    weights: NDArray[np.float32],
    rows: Mapping[str, NDArray[Any]],
    observed: NDArray[np.float32],
    actual: NDArray[np.float32],
    told: Mapping[str, NDArray[np.float32]],
) -> Values:
    """Measure weighted rows; weights have shape (n_resamples, n_rows)."""
    wide = weights.astype(np.float64)
    n_observed = wide @ rows["n_observed"].astype(np.float64)
    values: Values = {"log_loss": _ratio(wide @ rows["log_loss"].astype(np.float64), n_observed)}

    def sums(table: NDArray[np.float32]) -> NDArray[np.float64]:
        total: NDArray[np.float64] = wide @ table.sum(axis=1, dtype=np.float64)
        return total

    predicted = told["example_f1"]
    size = (predicted + actual).sum(axis=1)
    each = np.divide(2 * (predicted * actual).sum(axis=1), size, out=np.zeros(len(size)), where=size > 0)
    values["example_f1"] = _ratio(wide @ each, wide @ (size > 0).astype(np.float64))
    predicted = told["micro_f1"]
    values["micro_f1"] = _ratio(2 * sums(predicted * actual), sums(predicted) + sums(actual))
    predicted = told["macro_f1"]
    both = (weights @ (predicted + actual)).astype(np.float64)
    hits = (weights @ (predicted * actual)).astype(np.float64)
    scores = np.divide(2 * hits, both, out=np.zeros_like(both), where=both > 0)
    seen = observed.any(axis=0)
    values["macro_f1"] = scores[:, seen].mean(axis=1)
    wrong = np.abs(told["hamming_accuracy"] - actual)
    values["hamming_accuracy"] = 1 - _ratio(sums(wrong), n_observed)
    return values


def _ratio(top: NDArray[np.float64], bottom: NDArray[np.float64]) -> NDArray[np.float64]:
    result: NDArray[np.float64] = np.divide(top, bottom, out=np.full_like(top, np.nan), where=bottom > 0)
    return result


def compare(
    ours: Sequence[tuple[bytes, Values]], rival: Sequence[tuple[bytes, Values]], names: Sequence[str] = METRICS
) -> dict[str, dict[str, float]]:
    """Compare two models over their seeds.

    Parameters
    ----------
    ours, rival : sequence of (bytes, dict)
        For each seed, which test rows there were, and the values of :func:`resampled_values`.
    names : sequence of str
        Measures to compare.

    Returns
    -------
    dict
        By measure: ``difference`` (ours minus rival's, means over seeds) and the 95 % interval ``low``, ``high``.
        Empty when the two were never measured on the same rows.

    Examples
    --------
    >>> one = {name: np.array([0.5, 0.4, 0.6]) for name in METRICS}
    >>> two = {name: np.array([0.3, 0.3, 0.3]) for name in METRICS}
    >>> {name: round(value, 3) for name, value in compare([(b"", one)], [(b"", two)])["macro_f1"].items()}
    {'difference': 0.2, 'low': 0.105, 'high': 0.295}
    """
    shared = {rows for rows, _ in ours} & {rows for rows, _ in rival}
    if not shared:
        return {}

    def mean(side: Sequence[tuple[bytes, Values]], name: str) -> NDArray[np.float64]:
        # Seeds that share their rows are averaged first, so that every set of rows counts alike.
        by_rows = [np.mean([values[name] for rows, values in side if rows == key], axis=0) for key in sorted(shared)]
        result: NDArray[np.float64] = np.mean(by_rows, axis=0)
        return result

    result = {}
    for name in names:
        gaps = mean(ours, name) - mean(rival, name)
        low, high = np.nanpercentile(gaps[1:], [(100 - _SHARE) / 2, (100 + _SHARE) / 2])
        result[name] = {"difference": float(gaps[0]), "low": float(low), "high": float(high)}
    return result


def pair_key(experiment: str, data: str, split: int, rival: str) -> str:
    """Name a comparison in the file.

    Examples
    --------
    >>> pair_key("tables", "yeast", 0, "mpvae")
    'tables/yeast/0/mpvae'
    """
    return f"{experiment}/{data}/{split}/{rival}"


def read_pairs(store: Store) -> dict[str, dict[str, Any]]:
    """Read the comparisons that were kept.

    Parameters
    ----------
    store : Store
        Results.

    Returns
    -------
    dict
        By :func:`pair_key`: ``fits`` compared, and ``metrics``.

    Examples
    --------
    >>> import tempfile
    >>> read_pairs(Store(tempfile.mkdtemp()))
    {}
    """
    path = store.folder / FILE
    if not path.exists():
        return {}
    pairs: dict[str, dict[str, Any]] = json.loads(path.read_text(encoding="utf-8"))["pairs"]
    return pairs


def update_pairs(store: Store, experiments: Sequence[Experiment] = tuple(EXPERIMENTS.values())) -> Path | None:
    """Compare the first model of each experiment with its rivals, as far as the values of single rows are there.

    Parameters
    ----------
    store : Store
        Results.
    experiments : sequence of Experiment
        Where to look.

    Returns
    -------
    Path or None
        The file, if anything was new. A comparison whose cells have not changed is kept as it is, one of cells with
        other settings, or measured anew since, is dropped. Seeds whose rows are gone, and seeds that the rival has yet
        to run, do not count in a new one.

    Examples
    --------
    >>> import tempfile
    >>> update_pairs(Store(tempfile.mkdtemp())) is None
    True
    """
    pairs = read_pairs(store)
    is_new = False
    for experiment in experiments:
        groups = groups_of(store, experiment)
        first = experiment.variants[0].name
        for data, split in dict.fromkeys((data, split) for _, data, split in groups):
            loaded: dict[str, tuple[bytes, Values]] = {}
            for variant in experiment.variants[1:]:
                # A seed that only one of them has, has no partner, unless a model has fewer seeds on purpose.
                by_seed = experiment.n_seeds(data, variant) == experiment.n_seeds(data, experiment.variants[0])
                sides = _matched([groups.get((name, data, split), []) for name in (first, variant.name)], by_seed)
                fits = [[measured_fit(line) for line in side] for side in sides]
                key = pair_key(experiment.name, data, split, variant.name)
                before = pairs.get(key, {"fits": [[], []]})["fits"]
                if not all(set(old) <= set(now) for old, now in zip(before, fits, strict=True)):
                    del pairs[key]  # of other fits: it says nothing of what the page shows
                    before, is_new = [[], []], True
                if before == fits or not all(fits):
                    continue
                # Rows are not kept for ever: seeds of an earlier run may be without.
                there = _matched([_with_rows(store, side, loaded) for side in sides], by_seed)
                sizes = [[len(side) for side in both] for both in (before, there)]
                if sizes[0] == sizes[1] or not all(0 < n >= n_before for n_before, n in zip(*sizes, strict=True)):
                    continue
                ours, theirs = ([loaded[line["fit"]] for line in side] for side in there)
                found = compare(ours, theirs)
                if found:
                    pairs[key] = {"fits": [[measured_fit(line) for line in side] for side in there], "metrics": found}
                    is_new = True
    if not is_new:
        return None
    path = store.folder / FILE
    notes = {
        "what": "differences ours - rival on test rows, honest protocol; 95 % intervals of a paired bootstrap",
        "n_resamples": N_RESAMPLES,
        "pairs": dict(sorted(pairs.items())),
    }
    write_text(path, json.dumps(notes, indent=1) + "\n")
    return path


def measured_fit(line: Mapping[str, Any]) -> str:
    """Name a fit and when it was measured: the same settings may be measured anew, such as after a model has changed.

    Examples
    --------
    >>> measured_fit({"fit": "0f", "date": "2026-01-01"})
    '0f measured 2026-01-01'
    """
    return f"{line['fit']} measured {line['date']}"


def _matched(sides: Sequence[list[dict[str, Any]]], by_seed: bool) -> list[list[dict[str, Any]]]:
    """Keep the seeds that both sides have, where ``by_seed`` says so."""
    shared = set.intersection(*({line["cell"]["seed"] for line in side} for side in sides))
    return [[line for line in side if not by_seed or line["cell"]["seed"] in shared] for side in sides]


def _with_rows(
    store: Store, lines: Sequence[dict[str, Any]], loaded: dict[str, tuple[bytes, Values]]
) -> list[dict[str, Any]]:
    """Load the values of single rows, and return the results for which they are there."""
    for fit in (line["fit"] for line in lines):
        path = store.rows_path(fit)
        if fit not in loaded and path.exists():
            with np.load(path, allow_pickle=False) as file:
                rows = {name: file[name] for name in file.files}
            loaded[fit] = (rows["row"].tobytes(), resampled_values(rows))
    return [line for line in lines if line["fit"] in loaded]


def groups_of(store: Store, experiment: Experiment) -> dict[tuple[str, str, int], list[dict[str, Any]]]:
    """Collect finished cells that differ in their seed alone.

    Parameters
    ----------
    store : Store
        Results.
    experiment : Experiment
        Which ones.

    Returns
    -------
    dict
        By variant, data and split; lines in the order of seeds. Where settings have changed, only the lines with
        the newest settings. Parts of a model that were measured with its fit have lines of their own.

    Examples
    --------
    >>> import tempfile
    >>> groups_of(Store(tempfile.mkdtemp()), EXPERIMENTS["tables"])
    {}
    """
    groups: dict[tuple[str, str, int], list[dict[str, Any]]] = {}
    for (_, variant, data, split, _), line in store.latest(experiment.name).items():
        if line["status"] == DONE:
            groups.setdefault((variant, data, split), []).append(line)
    for part in experiment.variants:
        if part.of:
            groups |= _parts_of(groups, experiment.variants[0].name, part)
    for key, lines in groups.items():
        newest = max(lines, key=lambda line: str(line.get("date", "")))
        same = [line for line in lines if line.get("recipe") == newest.get("recipe")]
        groups[key] = sorted(same, key=lambda line: int(line["cell"]["seed"]))
    return groups


def _parts_of(
    groups: Mapping[tuple[str, str, int], list[dict[str, Any]]], whole: str, part: Variant
) -> dict[tuple[str, str, int], list[dict[str, Any]]]:
    """Make lines of what lines of the whole model tell of one of its parts."""
    found: dict[tuple[str, str, int], list[dict[str, Any]]] = {}
    for (variant, data, split), lines in groups.items():
        if variant != whole:
            continue
        for line in lines:
            if part.of not in line.get("alone", {}):
                continue  # the recipe of this fit had no such member
            own = {name: value for name, value in line.items() if name not in ("alone", "found")}
            own |= {"cell": line["cell"] | {"variant": part.name}, "title": part.title, **line["alone"][part.of]}
            found.setdefault((part.name, data, split), []).append(own | {"fit": f"{line['fit']}.{part.of}"})
    return found
