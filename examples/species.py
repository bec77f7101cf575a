"""From a site-by-species table to probabilities, thresholds and a saved model."""

import tempfile
from pathlib import Path

import pandas as pd

from hotvae import HotVAENetwork, Training, evaluate, load_model, split_dataset, virtual_region

region = virtual_region(n_sites=2000, n_species=12, random_state=0)
data = region.dataset
parts = split_dataset(data, kind="block", fractions=(0.6, 0.2, 0.2), block_size=20.0, random_state=0)

train, held, test = (data.take(rows) for rows in (parts.train, parts.validation, parts.test))
training = Training(max_epochs=20, learning_rate=0.002)
model = HotVAENetwork(training=training, encoder_widths=(128, 128), random_state=0)
model.fit(train, validation=held)  # a Dataset brings the names of features and labels

climate = pd.DataFrame(test.features, columns=test.feature_names)
probs = model.predict_proba(climate)
scores = evaluate(test.labels, probs, model.thresholds_)
print(f"blocks never seen: maF1 {scores['macro_f1']:.3f}, mean AUC {scores['mean_auc']:.3f}")
print(f"log loss {scores['log_loss']:.3f}, the true probabilities {region.best_log_loss:.3f}")

with tempfile.TemporaryDirectory() as folder:
    model.save(Path(folder) / "model")
    again = load_model(Path(folder) / "model")
assert (again.predict_proba(climate) == probs).all()
print("saved, loaded, same bits")
