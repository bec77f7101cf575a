"""Write the reference predictions anew: python -m tests.regenerate --why "what changed and why it should".

They pin the numbers of small fixed models in float64. A change of them is a change of the method: it needs a reason,
which is kept in the file.
"""

import argparse
import json
from pathlib import Path

from hotvae import HotVAEClassifier, PlainNetClassifier, virtual_region

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
DECODER = {"n_heads": 2, "feedforward_dim": 8, "label_encoder_widths": (16,), "decoder_dropout": 0.1}
PAPER = DECODER | {"conditional": False}
MODELS = {
    "hotvae": HotVAEClassifier(**SMALL, **PAPER, n_layers=2),
    "hotvae, known labels": HotVAEClassifier(**SMALL, **DECODER, n_layers=2),
    "hotvae, pre-norm, shared layers, no direct path, cooccurrence graph": HotVAEClassifier(
        **SMALL,
        **PAPER,
        n_layers=3,
        norm="pre",
        share_layers=True,
        direct_path=False,
        graph="cooccurrence",
        min_count=12,
        dropout_sharing="none",
    ),
    "hotvae, averaged over draws": HotVAEClassifier(**SMALL, **PAPER, n_layers=1, n_draws=4),
    "plain": PlainNetClassifier(**SMALL),
}


def predictions():
    """Probabilities of four rows by each model."""
    data = virtual_region(160, 5, random_state=0).dataset
    return {
        name: model.fit(data.features[:120], data.labels[:120]).predict_proba(data.features[120:124]).tolist()
        for name, model in MODELS.items()
    }


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--why", required=True, help="the reason, kept in the file")
    why = parser.parse_args().why
    PATH.parent.mkdir(exist_ok=True)
    PATH.write_text(json.dumps({"why": why, "predictions": predictions()}, indent=1) + "\n")
    print(f"wrote {PATH.relative_to(Path.cwd())}")
