"""Tuned cut-offs for any multi-label classifier, and the two protocols that must not be mixed."""

from sklearn.ensemble import ExtraTreesClassifier

from hotvae import ThresholdTuner, split_dataset, virtual_region
from hotvae.estimators.thresholds import evaluate_protocols

data = virtual_region(n_sites=900, n_species=12, random_state=0).dataset
parts = split_dataset(data, fractions=(0.5, 0.2, 0.3), random_state=0)
features, labels = data.features, data.labels

forest = ExtraTreesClassifier(100, min_samples_leaf=3, random_state=0).fit(features[parts.train], labels[parts.train])
tuner = ThresholdTuner(forest, metric="macro_f1", cv="prefit").fit(features[parts.validation], labels[parts.validation])
print(f"cut at {tuner.thresholds_}: macro F1 {tuner.score(features[parts.test], labels[parts.test]):.3f} on test rows")

protocols = evaluate_protocols(
    labels[parts.test],
    tuner.predict_proba(features[parts.test]),
    labels[parts.validation],
    tuner.predict_proba(features[parts.validation]),
)
for name, scores in protocols.items():
    print(f"{name:6}: macro F1 {scores['macro_f1']:.3f} at {scores['thresholds']['macro_f1']}")
