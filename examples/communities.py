"""From a site-by-species table to maps: what a joint species distribution model is used for, step by step.

    python examples/communities.py [FOLDER]      the pictures go to FOLDER, if one is named

The sites are those of a virtual region, so that nothing has to be downloaded.
"""

import sys
import tempfile
from pathlib import Path

import numpy as np
import pandas as pd

from hotvae import HotVAEClassifier, read_table, split_dataset, virtual_region
from hotvae.jobs.train import label_report
from hotvae.metrics import all_measures, calibration_error, log_loss, measures_frame, richness_coverage, site_pairs
from hotvae.report.plots import plot_richness_interval, plot_species_map

pictures = tempfile.TemporaryDirectory() if len(sys.argv) < 2 else None
folder = Path(pictures.name if pictures else sys.argv[1])

# 1. A table: one row per site, climate and terrain, one column of 0 and 1 per species.
region = virtual_region(n_sites=2000, n_species=16, random_state=0)
climate, species = list(region.dataset.feature_names), list(region.dataset.label_names)
places = list(region.dataset.coordinate_names)
sites = pd.DataFrame(
    np.hstack([region.dataset.coordinates, region.dataset.features, region.dataset.labels]),
    columns=[*places, *climate, *species],
)
with tempfile.TemporaryDirectory() as home:
    sites.to_csv(Path(home) / "sites.csv", index_label="site")
    data = read_table(Path(home) / "sites.csv", labels="species_*", id_column="site", coordinates=places)
print(f"{data.n_samples} sites, {data.n_features} features, {data.n_labels} species")

# 2. Whole blocks of 20 km are left out: neighbours of a training site would be too easy to predict.
parts = split_dataset(data, kind="block", block_size=20.0, fractions=(0.8, 0.0, 0.2), random_state=0)
train, test = data.take(parts.train), data.take(parts.test)
observed = test.labels

# 3. The default finds its own recipe: rows of its own are held out by blocks of the map.
model = HotVAEClassifier(effort="quick", random_state=0)
model.fit(train)

# 4. The 12 measures (20 numbers), from probabilities and from whole communities drawn together.
probs = model.predict_proba(test)
draws = model.sample(test, n_draws=100, random_state=0)
pairs = site_pairs(len(observed), 300, random_state=0)
scores = all_measures(observed, draws=draws, pairs=pairs, probs=probs, dialect="gomes")
shown = measures_frame({"value": scores})
shown["level"] = (shown["level"] + " " + shown["component"]).str.strip()
shown["aspect"] += " (" + shown["better"] + ")"
print(f"\nthe 12 measures on the test blocks, dialect {scores.dialect!r}; in brackets: what is better")
grid = shown.pivot(index="level", columns="aspect", values="value")
print(
    grid.loc[shown["level"].unique(), shown["aspect"].unique()]
    .rename_axis(index=None, columns=None)
    .round(3)
    .to_string()
)
inside = richness_coverage(observed, draws, ties="shared")  # exact for whole numbers
print(f"\nthe 50 % interval of richness holds the observed number at {inside:.0%} of the test sites")

# 5. Species by species: how common, how well ranked, how honest; and better than knowing only how common it is?
report = label_report(model, observed, probs).set_index("label")
usual = train.labels.mean(axis=0)
table = pd.DataFrame(
    {
        "prevalence": report["n_present"] / report["n_observed"],
        "predicted": report["mean_probability"],
        "auc": report["auc"],
        "calibration_gap": [calibration_error(observed[:, [i]], probs[:, [i]], n_bins=5) for i in range(len(species))],
        "explained": [
            1 - log_loss(observed[:, [i]], probs[:, [i]]) / log_loss(observed[:, [i]], np.full((len(observed), 1), p))
            for i, p in enumerate(usual)
        ],
    }
).sort_values("auc")
print("\n" + table.rename_axis(None).round(3).to_string())

# 6. Species to be careful with: barely ranked, or no better than their prevalence.
poor = table[(table["auc"] < 0.7) | (table["explained"] < 0.05)]
print(f"\npoorly predicted: {', '.join(poor.index) or 'none'}")

# 7. Maps: the whole region on a grid of 2 km.
axis = np.arange(1.0, 100.0, 2.0)
squares = np.stack(np.meshgrid(axis, axis), axis=-1).reshape(-1, 2)
layers = pd.DataFrame(np.hstack([region.environment(squares), squares]), columns=[*climate, *places])
richness = np.concatenate([block.sum(axis=2) for block in model.sample_blocks(layers, 300, random_state=0)])
# Counts jump from one whole number to the next; spread over half a species each way their quartiles do not.
spread = richness + np.random.default_rng(0).uniform(-0.5, 0.5, richness.shape)
lower, upper = np.quantile(spread, [0.25, 0.75], axis=0)
everywhere = model.predict_proba(layers)
cells = pd.DataFrame(squares, columns=places).assign(expected=everywhere.sum(axis=1), lower=lower, upper=upper)
plot_richness_interval(cells, places).savefig(folder / "communities_richness.png", dpi=80)

chosen = table.index[-1]
cells["probability"] = everywhere[:, species.index(chosen)]
figure = plot_species_map(cells, chosen, places)
is_there = observed[:, species.index(chosen)] == 1
for which, colour, words in ((is_there, "white", "found"), (~is_there, "black", "not found")):
    looked = test.coordinates[which]
    figure.axes[0].scatter(*looked.T, s=16, facecolors=colour, edgecolors="grey", label=f"{words} (test sites)")
figure.axes[0].legend(loc="upper right", fontsize=9, framealpha=1)
figure.savefig(folder / "communities_species.png", dpi=80)
print(f"\nmaps of richness and of {chosen}: communities_richness.png, communities_species.png")
if pictures:
    pictures.cleanup()
