"""Predict which labels go together.

The package follows the data, top to bottom:

1. :mod:`hotvae.data`: tables in, data sets, splits, scaling, virtual regions;
2. :mod:`hotvae.graph`: which labels may talk to each other;
3. :mod:`hotvae.net`: encoders, latent Gaussians, message-passing decoder, losses;
4. :mod:`hotvae.training` and :mod:`hotvae.checkpoint`: the one loop, and files that survive;
5. :mod:`hotvae.metrics` and :mod:`hotvae.thresholds`: how good it is, and where to cut;
6. :mod:`hotvae.network_classifier`, :mod:`hotvae.estimator` and :mod:`hotvae.baselines`: the scikit-learn faces;
7. :mod:`hotvae.models` and :mod:`hotvae.runs`: saved models and whole jobs; :mod:`hotvae.cli`: the command line.

Names are loaded when they are first used, so that ``import hotvae`` does not wait for torch.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hotvae.baselines.plain import PlainNetClassifier
    from hotvae.data.dataset import Dataset
    from hotvae.data.splits import split_dataset
    from hotvae.data.synthetic import virtual_region
    from hotvae.data.tables import read_table
    from hotvae.errors import HotVAEError
    from hotvae.estimator import HotVAEClassifier
    from hotvae.models import load_model
    from hotvae.threshold_tuner import ThresholdTuner
    from hotvae.thresholds import evaluate

_HOMES = {
    "Dataset": "hotvae.data.dataset",
    "HotVAEClassifier": "hotvae.estimator",
    "HotVAEError": "hotvae.errors",
    "PlainNetClassifier": "hotvae.baselines.plain",
    "ThresholdTuner": "hotvae.threshold_tuner",
    "evaluate": "hotvae.thresholds",
    "load_model": "hotvae.models",
    "read_table": "hotvae.data.tables",
    "split_dataset": "hotvae.data.splits",
    "virtual_region": "hotvae.data.synthetic",
}

__all__ = [
    "Dataset",
    "HotVAEClassifier",
    "HotVAEError",
    "PlainNetClassifier",
    "ThresholdTuner",
    "evaluate",
    "load_model",
    "read_table",
    "split_dataset",
    "virtual_region",
]


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'hotvae' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
