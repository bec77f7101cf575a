"""Predict which labels go together.

The package follows the data, top to bottom:

1. :mod:`hotvae.data`: tables in, data sets, splits, virtual regions; :mod:`hotvae.features`: rows made ready;
2. :mod:`hotvae.graph`: which labels may talk to each other;
3. :mod:`hotvae.net`: encoders, latent Gaussians, message-passing decoder, losses: torch alone;
4. :mod:`hotvae.training`: the one loop; :mod:`hotvae.checkpoint`: files that survive;
5. :mod:`hotvae.metrics`: how good it is;
6. :mod:`hotvae.estimators` and :mod:`hotvae.baselines`: the scikit-learn faces;
7. :mod:`hotvae.explain`: what a model says of its labels; :mod:`hotvae.geo`: field data in, maps out;
   :mod:`hotvae.report`: pages and plots;
8. :mod:`hotvae.jobs`: whole jobs on files; :mod:`hotvae.scale`: jobs on a Ray cluster;
   :mod:`hotvae.serve`: a model that answers over HTTP; :mod:`hotvae.cli`: the command line.

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
    from hotvae.estimators.hotvae import HotVAEClassifier
    from hotvae.estimators.hotvae_network import HotVAENetwork
    from hotvae.estimators.joint import JointClassifier
    from hotvae.estimators.registry import load_model
    from hotvae.estimators.threshold_tuner import ThresholdTuner
    from hotvae.estimators.thresholds import evaluate
    from hotvae.training.settings import Training

_HOMES = {
    "Dataset": "hotvae.data.dataset",
    "HotVAEClassifier": "hotvae.estimators.hotvae",
    "HotVAENetwork": "hotvae.estimators.hotvae_network",
    "HotVAEError": "hotvae.errors",
    "JointClassifier": "hotvae.estimators.joint",
    "PlainNetClassifier": "hotvae.baselines.plain",
    "ThresholdTuner": "hotvae.estimators.threshold_tuner",
    "Training": "hotvae.training.settings",
    "evaluate": "hotvae.estimators.thresholds",
    "load_model": "hotvae.estimators.registry",
    "read_table": "hotvae.data.tables",
    "split_dataset": "hotvae.data.splits",
    "virtual_region": "hotvae.data.synthetic",
}

__all__ = [
    "Dataset",
    "HotVAEClassifier",
    "HotVAEError",
    "HotVAENetwork",
    "JointClassifier",
    "PlainNetClassifier",
    "ThresholdTuner",
    "Training",
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
