"""What makes rows ready for a network: scikit-learn transformers that learn from training rows only.

``TRANSFORMERS`` names them by what a row is; a new kind of row is a file in this folder and a line here.
"""

from hotvae.features.molecules import AtomTokens, ElementPresence
from hotvae.features.rows import Rows
from hotvae.features.scaling import FeatureScaler
from hotvae.features.text import BagOfWords, TextTokens
from hotvae.features.tokens import ActiveColumns, TokenRows
from hotvae.features.transformer import RowTransformer

TRANSFORMERS: dict[str, type[RowTransformer]] = {
    "mlp": FeatureScaler,
    "set": ActiveColumns,
    "text": TextTokens,
    "bag": BagOfWords,
    "smiles": AtomTokens,
    "elements": ElementPresence,
}
"""The transformer that goes with each name of ``encoder``."""

__all__ = [
    "TRANSFORMERS",
    "ActiveColumns",
    "AtomTokens",
    "BagOfWords",
    "ElementPresence",
    "FeatureScaler",
    "RowTransformer",
    "Rows",
    "TextTokens",
    "TokenRows",
]
