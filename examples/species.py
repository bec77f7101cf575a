"""From a site-by-species table to probabilities, thresholds and a saved model."""

import tempfile
from pathlib import Path

import pandas as pd

from hotvae import HotVAEClassifier, evaluate, load_model, split_dataset, virtual_region

region = virtual_region(n_sites=2000, n_species=12, random_state=0)
data = region.dataset
parts = split_dataset(data, kind="block", fractions=(0.6, 0.2, 0.2), block_size=20.0, random_state=0)

climate = pd.DataFrame(data.features, columns=data.feature_names)
species = pd.DataFrame(data.labels, columns=data.label_names)
model = HotVAEClassifier(max_epochs=20, encoder_widths=(128, 128), learning_rate=0.002, random_state=0)
model.fit(
    climate.iloc[parts.train],
    species.iloc[parts.train],
    validation=(climate.iloc[parts.validation], species.iloc[parts.validation]),
)

probs = model.predict_proba(climate.iloc[parts.test])
scores = evaluate(data.labels[parts.test], probs, model.thresholds_)
print(f"blocks never seen: maF1 {scores['macro_f1']:.3f}, mean AUC {scores['mean_auc']:.3f}")
print(f"log loss {scores['log_loss']:.3f}, the true probabilities {region.best_log_loss:.3f}")

with tempfile.TemporaryDirectory() as folder:
    model.save(Path(folder) / "model")
    again = load_model(Path(folder) / "model")
assert (again.predict_proba(climate.iloc[parts.test]) == probs).all()
print("saved, loaded, same bits")
