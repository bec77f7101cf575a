"""Write the table of the README from the stored results of ``hotvae benchmark``: python -m paper.readme_table."""

from hotvae.files import write_text
from paper import DOCS, RESULTS
from paper.experiments import EXPERIMENTS
from paper.facts import printed
from paper.paired import groups_of
from paper.store import Store
from paper.summaries import markdown_table, mean_of, metric_mean, plural, replace_marked

PAGE = DOCS.parent / "README.md"
MEASURES = {
    "example_f1": "ebF1",
    "micro_f1": "miF1",
    "macro_f1": "maF1",
    "hamming_accuracy": "HA",
    "mean_auc": "mean AUC",
    "log_loss": "log loss",
}
MODELS = {
    "hotvae": "HOT-VAE",
    "paper": "HOT-VAE, the paper's recipe",
    "plain": "no label decoder",
    "mpvae": "MPVAE",
    "kernel_ridge": "kernel ridge",
    "extra_trees": "extremely randomised trees",
}
# Where each set was measured; those of which HOT-VAE has no result yet are left out.
SETS = (
    *(("tables", name) for name in ("scene", "yeast", "sider", "bibtex", "reuters", "mirflickr_tags")),
    *(("communities", name) for name in ("bbs_like_ebird100", "bbs2011_wilkinson", "bbs_clark2003_2009")),
)


def number(value, digits=3):
    """Write a share as tables do, without the leading zero."""
    return f"{value:.{digits}f}".removeprefix("0")


def row(lines, data, title, n_seeds):
    """Return the row of one model on one set."""
    found = [metric_mean(lines, metric) for metric in MEASURES]
    digits = [4 if metric == "log_loss" else 3 for metric in MEASURES]
    cells = ["–" if mean is None else number(mean.value, n) for mean, n in zip(found, digits, strict=True)]
    seconds = mean_of(line["fit_seconds"]["cpu"] for line in lines).value
    return [f"{data}, {n_seeds}", title, *cells, f"{seconds:.0f}"]


def results_table(store):
    """Return the table: sets, the models everybody asks for, means over seeds."""
    groups = {name: groups_of(store, EXPERIMENTS[name]) for name in {experiment for experiment, _ in SETS}}
    rows = []
    for experiment, data in SETS:
        if ("hotvae", data, 0) not in groups[experiment]:
            continue
        for model, title in MODELS.items():
            lines = groups[experiment].get((model, data, 0))
            if lines:
                rows.append(row(lines, data, title, plural(len(lines), "seed")))
        said = [printed(metric, data, "hotvae") for metric in MEASURES]
        if experiment == "tables" and any(value is not None for value in said):
            cells = ["–" if value is None else number(value) for value in said]
            rows.append([data, "HOT-VAE as the paper prints it", *cells, "–"])
    table = markdown_table(["data", "model", *MEASURES.values(), "CPU s"], rows)
    return table.replace("|---|---:|", "|---|---|", 1)  # the second column is text, too


def render(page, store):
    """Return the page with its table written anew."""
    return replace_marked(page, "results", f"\n{results_table(store).strip()}\n\n")


if __name__ == "__main__":
    write_text(PAGE, render(PAGE.read_text(), Store(RESULTS)))
    print(f"wrote {PAGE.name}")
