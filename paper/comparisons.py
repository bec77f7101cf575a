"""Comparisons of models with each other on single sets, which a page keeps in a file of its own beside the results."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hotvae.files import write_text
from paper.paired import N_RESAMPLES, Groups, Values, measured_fit
from paper.runner import revision, versions
from paper.store import Store

Side = Sequence[tuple[bytes, Values]]


@dataclass(frozen=True)
class Comparisons:
    """What a page compares, and where it is kept.

    Attributes
    ----------
    file : str
        Its name beside the results.
    what : str
        Said in the file.
    values : callable
        Measures of a fit on all its test rows and on resamples of them, from the values of single rows.
    compared : callable
        What is kept of two sides, fits of one model and fits of another.
    """

    file: str
    what: str
    values: Callable[[Mapping[str, NDArray[Any]]], Values]
    compared: Callable[[Side, Side], Mapping[str, Any]]

    def read(self, store: Store) -> dict[str, Any]:
        """Read what was kept: by set, then by pair.

        Examples
        --------
        >>> import tempfile
        >>> Comparisons("none.json", "", lambda rows: {}, lambda ours, theirs: {}).read(Store(tempfile.mkdtemp()))
        {}
        """
        path = store.folder / self.file
        found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))["pairs"] if path.exists() else {}
        return found

    def update(
        self,
        store: Store,
        groups: Groups,
        sets: Sequence[str],
        pairs: Mapping[str, tuple[str, str]],
        command: str = "",
    ) -> dict[str, Any]:
        """Compare what is new, and write the file where something is.

        Parameters
        ----------
        store : Store
            Results.
        groups : dict
            From :func:`~paper.paired.groups_of`.
        sets : sequence of str
            Names of sets; all splits of one go together.
        pairs : mapping of str to (str, str)
            Two variants each, by the key under which they are kept.
        command : str
            Noted in the file.

        Returns
        -------
        dict
            By set, then by key: ``fits`` that were compared, and what ``compared`` says. A comparison whose fits have
            not changed is kept as it is, also where further seeds have come whose rows are not at hand: the values of
            single rows are not kept for ever.
        """
        kept, loaded, is_new = self.read(store), dict[str, tuple[bytes, Values]](), False
        for name in dict.fromkeys(sets):
            for key, (ours, rival) in pairs.items():
                both = partners(groups, name, ours, rival)
                sides = list(zip(*both, strict=True))
                fits = [[measured_fit(line) for line in side] for side in sides]
                before = kept.get(name, {}).get(key, {}).get("fits")
                if not fits or before == fits:
                    continue
                if before and not all(set(old) <= set(now) for old, now in zip(before, fits, strict=True)):
                    del kept[name][key]  # of other fits: it says nothing of what the page shows
                    is_new = True
                paths = {line["fit"]: store.rows_path(line["fit"]) for side in sides for line in side}
                if not all(path.exists() for path in paths.values()):
                    continue
                for fit in set(paths) - set(loaded):
                    with np.load(paths[fit], allow_pickle=False) as file:
                        rows = {field: file[field] for field in file.files}
                    loaded[fit] = (rows["row"].tobytes(), self.values(rows))
                own, other = ([loaded[line["fit"]] for line in side] for side in sides)
                kept.setdefault(name, {})[key] = {"fits": fits, **self.compared(own, other)}
                is_new = True
        if is_new:
            notes = {
                "what": self.what,
                "n_resamples": N_RESAMPLES,
                "command": command,
                "date": datetime.now(UTC).isoformat(timespec="seconds"),
                "revision": revision(),
                "versions": versions(),
                "pairs": {name: dict(sorted(kept[name].items())) for name in sorted(kept) if kept[name]},
            }
            write_text(store.folder / self.file, json.dumps(notes, indent=1) + "\n")
        return kept


def partners(groups: Groups, name: str, ours: str, rival: str) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    """Pair fits of one split and seed of a set; a model that has fewer seeds on purpose is taken again.

    Examples
    --------
    >>> one = {("a", "yeast", 0): [{"cell": {"seed": seed}} for seed in (0, 1)]}
    >>> other = {("b", "yeast", 0): [{"cell": {"seed": 0}}]}
    >>> [(x["cell"]["seed"], y["cell"]["seed"]) for x, y in partners(one | other, "yeast", "a", "b")]
    [(0, 0), (1, 0)]
    """
    found = []
    for (variant, data, split), lines in groups.items():
        theirs = {line["cell"]["seed"]: line for line in groups.get((rival, data, split), [])}
        if variant == ours and data == name and theirs:
            only = next(iter(theirs.values())) if len(theirs) == 1 and len(lines) > 1 else None
            found += [(line, theirs.get(line["cell"]["seed"], only)) for line in lines]
    return [(own, other) for own, other in found if other is not None]
