"""How much of the interactions of a virtual region the default model finds, by flips of labels and by its edges.

    python -m paper.recovery                        (5,000 sites; minutes)
    python -m paper.recovery --sites 1500 5000 12000 --seeds 2
    python -m paper.recovery --law-effort 2         (the law is trained four times as long as by default)
    python -m paper.recovery --sites 5000 --store   (also into paper/results/recovery.json)
    python -m paper.recovery --render               (the stored table into docs/interactions.md)

Prints a table: precision and recall of the pairs that are kept, their signs, the share of interactions that switch
between environments and are found to, and the slope of modelled on exact change. 1,500 other sites are asked.
"""

import argparse
import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from hotvae import HotVAEClassifier, virtual_region
from hotvae.estimators.stacked import law_line
from hotvae.explain import Recovery, associations, edge_agreement, edges, score_recovery
from hotvae.files import write_text
from hotvae.training.settings import Training
from paper import DOCS, RESULTS
from paper.cells import timed
from paper.runner import provenance
from paper.summaries import markdown_table, replace_marked

N_ASKED = 1500
FILE, PAGE = RESULTS / "recovery.json", DOCS / "interactions.md"
HEAD = ["HOT-VAE", "precision", "recall", "sign", "switching", "slope", "kept", "CPU s"]


def recover(
    n_sites: int,
    seed: int,
    effort: str = "normal",
    n_fits: int = 10,
    max_rows: int = 300,
    law_effort: float | None = None,
) -> dict[str, Any]:
    """Fit the default on some sites and score what it says of interactions.

    Parameters
    ----------
    n_sites, seed : int
        Training sites, and the seed of the model.
    effort : {"quick", "normal", "thorough"}
        Of the model.
    n_fits : int
        Laws behind the intervals of the edges.
    max_rows : int
        Rows that are asked about.
    law_effort : float, optional
        Epochs of the law, as a share of their usual number, in the place of those that go with ``effort``.

    Returns
    -------
    dict
        ``flips`` and ``edges``, a :class:`~hotvae.explain.Recovery` each, ``agreement`` of the two, processor
        ``seconds`` of the fit and of both readings, and ``law`` in words.
    """
    region = virtual_region(n_sites + N_ASKED, random_state=0)
    data = region.dataset
    X = pd.DataFrame(np.asarray(data.features), columns=list(data.feature_names))
    Y = pd.DataFrame(np.asarray(data.labels), columns=list(data.label_names))
    model = HotVAEClassifier(effort=effort, random_state=seed, n_threads=1)  # type: ignore[arg-type]

    def learn() -> None:
        model.fit(X[:n_sites], Y[:n_sites])
        if law_effort is not None and model.out_of_fold_ is not None:
            model.out_of_fold_ = replace(model.out_of_fold_, effort=law_effort)
            model.law_ = model.out_of_fold_.learn_law(Training(n_threads=1))

    _, fit = timed(learn)
    asked = range(n_sites, n_sites + N_ASKED)
    common: dict[str, Any] = {"max_rows": max_rows}
    flips, by_flips = timed(lambda: score_recovery(model, region, asked, **common))

    def read(*tables: Any, **settings: Any) -> pd.DataFrame:
        return edges(*tables, n_fits=n_fits, **settings)

    own, by_edges = timed(lambda: score_recovery(model, region, asked, read=read, **common))
    told = X[n_sites:], np.asarray(data.labels)[n_sites:]
    agreement = edge_agreement(
        edges(model, *told, n_fits=0, max_rows=max_rows), associations(model, *told, scale="logit", max_rows=max_rows)
    )
    seconds = {"fit": fit["cpu"], "flips": by_flips["cpu"], "edges": by_edges["cpu"]}
    return {
        "flips": flips,
        "edges": own,
        "agreement": agreement,
        "seconds": seconds,
        "law": "" if model.law_ is None else law_line(model.law_),
    }


def _row(title: str, found: Recovery, seconds: float) -> list[str]:
    names = ("precision", "recall", "sign_accuracy", "switching", "switch_ratio")
    return [title, *(f"{getattr(found, name):.2f}" for name in names), str(found.n_kept), f"{seconds:.0f}"]


def main(argv: Sequence[str] | None = None) -> None:
    """Fit, score and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sites", type=int, nargs="+", default=[5000])
    parser.add_argument("--seeds", type=int, default=1, help="how many")
    parser.add_argument("--effort", choices=("quick", "normal", "thorough"), default="normal")
    parser.add_argument("--law-effort", type=float, help="epochs of the law, as a share of their usual number")
    parser.add_argument("--fits", type=int, default=10, help="laws behind the intervals of the edges")
    parser.add_argument("--rows", type=int, default=300, help="rows that are asked about")
    parser.add_argument("--store", action="store_true", help="write the table to paper/results/recovery.json")
    parser.add_argument("--render", action="store_true", help="only write the stored table into docs/interactions.md")
    options = parser.parse_args(argv)
    if options.render:
        stored = json.loads(FILE.read_text(encoding="utf-8"))
        text = f"\n{markdown_table(HEAD, stored['rows'])}\n`{stored['command']}`, {stored['date'][:10]}.\n\n"
        write_text(PAGE, replace_marked(PAGE.read_text(encoding="utf-8"), "recovery", text))
        return
    rows = []
    for n_sites in options.sites:
        for seed in range(options.seeds):
            found = recover(n_sites, seed, options.effort, options.fits, options.rows, options.law_effort)
            print(f"{n_sites} sites, seed {seed}: {found['law']}; fit {found['seconds']['fit']:.0f} CPU s")
            print(f"edges and flips: {json.dumps(found['agreement'])}")
            for kind in ("flips", "edges"):
                title = f"{n_sites} sites, seed {seed}, {kind}"
                rows.append(_row(title, found[kind], found["seconds"][kind]))
            print(found["edges"].interactions.to_string(), flush=True)
    print(markdown_table(HEAD, rows))
    if options.store:
        write_text(FILE, json.dumps(provenance(0) | {"seeds": options.seeds, "rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
