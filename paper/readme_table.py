"""Write the table of the README from the stored results of ``python -m paper.joint``: python -m paper.readme_table."""

import numpy as np

from hotvae.files import write_text
from paper import DOCS, RESULTS
from paper.joint import TITLES, experiment_of
from paper.paired import groups_of
from paper.store import Store
from paper.summaries import markdown_table, replace_marked

PAGE = DOCS.parent / "README.md"
OURS = "hotvae"
RIVALS = ("extra_trees", "mpvae", "probit", "probit_mlp", "chains")
MEASURES = {"given_0": ("log loss", 4), "given_50": ("half known", 4), "nll_row": ("whole list, nats", 2)}
# Those that have been measured, six at most.
SETS = {
    "breeding_birds_2009": "123 birds of 2,226 routes",
    "bbs_like_ebird100": "100 birds of 15,327 surveys",
    "norberg_butterfly": "50 butterflies of 1,200 sites",
    "mirflickr_tags": "38 subjects of 20,000 photos",
    "yeast": "14 functions of 2,417 genes",
    "scene": "6 things in 2,407 pictures",
    "emotions": "6 moods of 593 songs",
}
N_ROWS = 6


def cells_of(groups, variant, data):
    """Return the measures of every fit of a model on a set, by split and seed."""
    return {
        (split, line["cell"]["seed"]): line["joint"]
        for (own, name, split), lines in groups.items()
        if (own, name) == (variant, data)
        for line in lines
    }


def set_row(groups, data):
    """Return the row of a set; None where it has not been measured. A rival counts that has all fits that we have."""
    ours = cells_of(groups, OURS, data)
    fits = {name: cells_of(groups, name, data) for name in RIVALS}
    fits = {name: found for name, found in fits.items() if ours and ours.keys() <= found.keys()}
    if not fits:
        return None
    row = [SETS[data]]
    for measure, (_, digits) in MEASURES.items():
        own = float(np.mean([found[measure] for found in ours.values()]))
        others = {name: float(np.mean([found[cell][measure] for cell in ours])) for name, found in fits.items()}
        best = min(others, key=others.get)
        row += [f"**{own:.{digits}f}**" if own < others[best] else f"{own:.{digits}f}"]
        row += [f"{others[best]:.{digits}f} ({short(best)})"]
    return row


def short(name):
    """Name a rival in a word or two."""
    return {"extra_trees": "trees", "probit": "probit", "probit_mlp": "probit", "chains": "chains"}.get(
        name, TITLES[name]
    )


def results_table(store):
    """Return the table: six sets, HOT-VAE beside the best of the others."""
    groups = groups_of(store, experiment_of(list(SETS)))
    rows = [row for data in SETS if (row := set_row(groups, data)) is not None]
    header = [title for measure, _ in MEASURES.values() for title in (measure, "best other")]
    return markdown_table(["", *header], rows[:N_ROWS])


def render(page, store):
    """Return the page with its table written anew."""
    return replace_marked(page, "results", f"\n{results_table(store).strip()}\n\n")


if __name__ == "__main__":
    write_text(PAGE, render(PAGE.read_text(encoding="utf-8"), Store(RESULTS)))
    print(f"wrote {PAGE.name}")
