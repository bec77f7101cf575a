"""Write the reference predictions anew: python -m tests.regenerate --why "what changed and why it should".

They pin the numbers of small fixed models in float64. A change of them is a change of the method: it needs a reason,
which is kept in the file.
"""

import argparse
import json
from pathlib import Path

import numpy as np

from hotvae import HotVAENetwork, PlainNetClassifier, virtual_region

PATH = Path(__file__).parent / "reference" / "predictions.json"
SMALL = {
    "encoder_widths": (16,),
    "encoder_dropout": 0.2,
    "dim": 8,
    "max_epochs": 3,
    "batch_size": 32,
    "learning_rate": 0.01,
    "weight_decay": 0.01,
    "average_decay": 0.9,
    "precision": "float64",
    "device": "cpu",
    "n_threads": 1,
    "random_state": 0,
}
DECODER = {"label_encoder_widths": (16,), "decoder_dropout": 0.1}
# Five labels in a chain.
CHAIN = np.abs(np.subtract.outer(np.arange(5), np.arange(5))) <= 1
MODELS = {
    "hotvae": HotVAENetwork.from_settings(**SMALL, **DECODER, n_layers=2),
    "hotvae, no direct path, three layers, chain of labels": HotVAENetwork.from_settings(
        **SMALL, **DECODER, n_layers=3, direct_path=False, graph=CHAIN
    ),
    "hotvae, two heads": HotVAENetwork.from_settings(**SMALL | {"dim": 128}, **DECODER, n_layers=1),
    "hotvae, ridge": HotVAENetwork.from_settings(**SMALL, **DECODER, n_layers=2, base="ridge"),
    "plain": PlainNetClassifier.from_settings(**SMALL),
}


def predictions():
    """Probabilities of four rows by each model."""
    data = virtual_region(160, 5, random_state=0).dataset
    found = {}
    for name, model in MODELS.items():
        model.fit(data.features[:120], data.labels[:120])
        found[name] = model.predict_proba(data.features[120:124]).tolist()
    return found


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--why", required=True, help="the reason, kept in the file")
    why = parser.parse_args().why
    PATH.parent.mkdir(exist_ok=True)
    PATH.write_text(json.dumps({"why": why, "predictions": predictions()}, indent=1) + "\n")
    print(f"wrote {PATH.relative_to(Path.cwd())}")
