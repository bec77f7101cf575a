"""Draw the README's picture from a finished demo: python docs/images/make.py hotvae-demo."""

import json
import sys
from pathlib import Path

import numpy as np
import pandas as pd

from hotvae import load_model, split_dataset, virtual_region
from hotvae.explain.associations import residual_associations
from hotvae.jobs.virtual_demo import FRACTIONS, true_associations
from hotvae.report.plots import plot_interactions

demo = Path(sys.argv[1])
seed = json.loads((demo / "results.json").read_text())["seed"]
region = virtual_region(5000, random_state=seed)
data = region.dataset
parts = split_dataset(data, fractions=FRACTIONS, random_state=seed)
unseen = np.concatenate([parts.validation, parts.test])
probs = load_model(demo / "model").predict_proba(pd.DataFrame(data.features[unseen], columns=list(data.feature_names)))
recovered = residual_associations(data.labels[unseen], probs).correlation
figure = plot_interactions(true_associations(region, unseen), recovered, data.label_names, region.guilds)
figure.savefig(Path(__file__).parent / "interactions.png", dpi=100)
