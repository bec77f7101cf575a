"""Texts as the network sees them: words in order, or a bag of weighted words; vocabulary from training rows only."""

import re
import unicodedata
import warnings
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, Self, get_args

import numpy as np
import pandas as pd
from numpy.typing import DTypeLike, NDArray
from scipy import sparse

from hotvae.config import require_choice, require_count
from hotvae.errors import ConfigError, DataError, DataWarning, ModelError, listed
from hotvae.features.tokens import NOTHING, UNKNOWN, TokenRows
from hotvae.features.transformer import RowTransformer

WordWeights = Literal["tfidf", "binary"]

NUMBER = "#"
"""The word every number is read as."""

# Signs that belong to the letter before them but are no letters to ``\w``: accents that have no composed form, vowel
# signs of Indic scripts and Thai, points of Hebrew and Arabic. Without them such words would fall to pieces.
_MARKS = (
    "\u0300-\u036f\u0591-\u05c7\u0610-\u061a\u064b-\u065f\u0670\u0900-\u0903\u093a-\u094f\u0951-\u0957\u0962\u0963"
    "\u0981-\u0983\u09bc-\u09d7\u0a01-\u0a03\u0a3c-\u0a51\u0a81-\u0a83\u0abc-\u0acd\u0b3c-\u0b57\u0bbe-\u0bcd"
    "\u0c3e-\u0c56\u0cbc-\u0cd6\u0d3e-\u0d4d\u0dca-\u0ddf\u0e31\u0e34-\u0e3a\u0e47-\u0e4e"
)
# Scripts written without spaces: one sign is one word, which is coarse but never a whole sentence.
_SIGNS = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff"
_WORD = re.compile(
    rf"(?P<number>\d+(?:[.,]\d+)*)|[{_SIGNS}]|(?:(?![{_SIGNS}\d_])\w[{_MARKS}]*)+(?:'(?:[^\W\d_][{_MARKS}]*)+)*"
)


def words_of(text: str) -> list[str]:
    """Cut a text into words.

    Letters are composed (NFKC) and folded to one case; a word is a run of letters with their marks, apostrophes
    inside included. Every number is the same word, :data:`NUMBER`. Chinese and Japanese signs are words of one sign.
    Everything else separates.

    Parameters
    ----------
    text : str
        Any text.
    """
    folded = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text).casefold()).replace("\u2019", "'")
    return [NUMBER if found["number"] else found[0] for found in _WORD.finditer(folded)]


def as_texts(values: Any, what: str = "texts") -> NDArray[np.object_]:
    """Check texts and bring them into one form.

    Parameters
    ----------
    values : sequence, Series, array or one-column DataFrame of str
        One text per row. None and NaN are taken as empty, with a warning.
    what : str
        What messages call them.

    Returns
    -------
    ndarray of object of shape (n_samples,)
        Every entry a str.

    Raises
    ------
    DataError
        Not one column, or entries that are not text.
    """
    if isinstance(values, str):
        raise DataError(f"{what} must be a list or column with one entry per row; got one str. Put it in a list.")
    if sparse.issparse(values):
        raise DataError(f"{what} must be a list or column of str; got a sparse matrix. Give the texts themselves.")
    table = np.asarray(values, dtype=object)
    if table.ndim == 2 and table.shape[1] == 1:
        table = table[:, 0]
    if table.ndim != 1:
        raise DataError(f"{what} must be one column; got shape {table.shape}. Choose or join the columns first.")
    texts, missing, wrong = np.empty(len(table), dtype=object), [], []
    for row, value in enumerate(table):
        if isinstance(value, str):
            texts[row] = str(value)
        elif value is None or value is pd.NA or (isinstance(value, float) and np.isnan(value)):
            texts[row] = ""
            missing.append(row)
        else:
            wrong.append(row)
    if wrong:
        first = table[wrong[0]]
        raise DataError(
            f"{what} must be str; got {first!r} of type {type(first).__name__} (rows {listed(wrong)}). "
            "Convert the column with astype(str), or choose another encoder."
        )
    if missing:
        warnings.warn(
            f"{what} must not be missing; got none in {len(missing)} rows (rows {listed(missing)}). "
            "They are taken as empty.",
            DataWarning,
            stacklevel=2,
        )
    return texts


class _Vocabulary(RowTransformer):
    """Words of the training texts: what :class:`TextTokens` and :class:`BagOfWords` share."""

    kinds = ("categorical",)
    is_sparse = False
    is_column = True
    stored_as = "text"

    def __init__(self, min_word_count: int = 2, max_words: int = 20_000) -> None:
        self.min_word_count = min_word_count
        self.max_words = max_words
        self.words: tuple[str, ...] = ()
        self._number: dict[str, int] = {}

    def check_parameters(self) -> None:
        """Find a parameter that is not allowed before any data are read."""
        for name in ("max_tokens", "min_word_count", "max_words"):
            require_count(name, getattr(self, name, 1))

    def read_column(self, column: Any) -> NDArray[np.object_]:
        """Return texts; a missing one is empty."""
        return as_texts(column)

    def fit(self, features: Any, y: Any = None, *, feature_names: Sequence[str] | None = None) -> Self:
        """Learn the vocabulary; refuse texts that share no word."""
        self.check_parameters()
        texts = as_texts(features)
        if len(texts) == 0:
            raise DataError("texts must have rows; got none. Choose some rows.")
        counts = Counter(word for text in texts for word in set(words_of(text)))
        often = [word for word, count in counts.items() if count >= self.min_word_count]
        if not often:
            raise DataError(
                f"training texts must share words: none occurs in {self.min_word_count} of them; got "
                f"{len(texts)} texts with {len(counts)} different words. Lower min_word_count."
            )
        # Frequent words first; the alphabet decides between equals, so that rows may come in any order.
        self._set_words(sorted(often, key=lambda word: (-counts[word], word))[: self.max_words])
        self.feature_names_in = tuple(feature_names or ("text",))
        self._learn_more(len(texts), np.array([counts[word] for word in self.words]))
        return self

    def _learn_more(self, n_texts: int, counts: NDArray[np.int64]) -> None:
        """Learn from the number of training texts that hold each word."""

    def _set_words(self, words: Iterable[str]) -> None:
        self.words = tuple(words)
        self._number = {word: number for number, word in enumerate(self.words)}

    def _learned(self) -> dict[str, Any]:
        return {"words": list(self.words)}

    def _restore(self, state: Mapping[str, Any]) -> None:
        self._set_words(_strings(state["words"]))

    def _fitted_texts(self, features: Any) -> NDArray[np.object_]:
        if not self.words:
            raise ConfigError("vocabulary must be fitted before use; got none. Call fit with training rows.")
        return as_texts(features)


class TextTokens(_Vocabulary):
    """Turn texts into the numbers of their words, in order.

    The vocabulary is learned from the rows given to `fit`, which must be training rows only. A word outside it becomes
    one and the same unknown word. A text longer than ``max_tokens`` words is cut after them; a text without any
    word, or a missing one, is a single token that says so.

    Parameters
    ----------
    max_tokens : int
        Most words of a text.
    min_word_count : int
        Training texts that must hold a word for it to enter the vocabulary.
    max_words : int
        Largest vocabulary; the words of most texts are kept.

    Attributes
    ----------
    words : tuple of str
        The vocabulary, frequent words first; word ``i`` is token ``i + 3``.

    Examples
    --------
    >>> words = TextTokens(min_word_count=2).fit(["wheat rose", "wheat fell", "corn fell"])
    >>> words.words
    ('fell', 'wheat')
    >>> words.transform(["Wheat fell, barley rose", ""]).padded()
    array([[4, 3, 2, 2],
           [1, 0, 0, 0]], dtype=int32)
    """

    gives = "ordered tokens"

    def __init__(self, max_tokens: int = 300, min_word_count: int = 2, max_words: int = 20_000) -> None:
        super().__init__(min_word_count, max_words)
        self.max_tokens = max_tokens

    @property
    def n_features_out(self) -> int:
        """Token numbers in use."""
        return UNKNOWN + 1 + len(self.words)

    def transform(self, features: Any, dtype: DTypeLike = np.int32) -> TokenRows:
        """Look up the words of texts; ``dtype`` has no meaning for tokens."""
        lookup = {word: number + UNKNOWN + 1 for word, number in self._number.items()}
        return TokenRows.from_lists(
            [lookup.get(word, UNKNOWN) for word in words_of(text)[: self.max_tokens]] or [NOTHING]
            for text in self._fitted_texts(features)
        )


class BagOfWords(_Vocabulary):
    r"""Turn texts into sparse rows of weighted words, their order forgotten.

    Parameters
    ----------
    weights : {"tfidf", "binary"}
        ``"tfidf"``: :math:`(1 + \ln n_{tw}) (1 + \ln \frac{1 + N}{1 + N_w})` for a word that a text holds
        :math:`n_{tw}` times and :math:`N_w` of the :math:`N` training texts hold, rows then divided by their length;
        ``"binary"``: 1 for a word that is there.
    min_word_count, max_words : int
        As in :class:`TextTokens`.

    Attributes
    ----------
    words : tuple of str
        The columns that come out, frequent words first. Words outside the vocabulary are left out, so that a text of
        such words, an empty or a missing one is a row of zeros.

    Examples
    --------
    >>> words = BagOfWords("binary", min_word_count=1).fit(["wheat rose", "wheat fell"])
    >>> words.words
    ('wheat', 'fell', 'rose')
    >>> words.transform(["wheat wheat barley", ""]).toarray()
    array([[1., 0., 0.],
           [0., 0., 0.]], dtype=float32)
    """

    def __init__(self, weights: WordWeights = "tfidf", min_word_count: int = 2, max_words: int = 20_000) -> None:
        super().__init__(min_word_count, max_words)
        self.weights: WordWeights = weights
        self._rarity: NDArray[np.float64] = np.empty(0)

    @property
    def n_features_out(self) -> int:
        """Columns that come out."""
        return len(self.words)

    def check_parameters(self) -> None:
        """Find a parameter that is not allowed before any data are read."""
        super().check_parameters()
        require_choice("weights", self.weights, get_args(WordWeights))

    def _learn_more(self, n_texts: int, counts: NDArray[np.int64]) -> None:
        self._rarity = 1 + np.log((1 + n_texts) / (1 + counts))

    def transform(self, features: Any, dtype: DTypeLike = np.float32) -> sparse.csr_array:
        """Weigh the words of texts."""
        texts = self._fitted_texts(features)
        indices: list[int] = []
        times: list[int] = []
        starts = [0]
        for text in texts:
            known = Counter(self._number[word] for word in words_of(text) if word in self._number)
            for column in sorted(known):
                indices.append(column)
                times.append(known[column])
            starts.append(len(indices))
        columns = np.array(indices, dtype=np.int64)
        data = np.ones(len(columns))
        if self.weights == "tfidf":
            data = (1 + np.log(np.array(times, dtype=np.float64))) * self._rarity[columns]
            length = np.sqrt(np.bincount(np.repeat(np.arange(len(texts)), np.diff(starts)), data**2, len(texts)))
            data /= np.repeat(length, np.diff(starts))
        return sparse.csr_array((data.astype(dtype), columns, np.array(starts)), shape=(len(texts), len(self.words)))

    def _learned(self) -> dict[str, Any]:
        return super()._learned() | {"rarity": self._rarity.tolist()}

    def _restore(self, state: Mapping[str, Any]) -> None:
        super()._restore(state)
        self._rarity = np.array(state["rarity"], dtype=np.float64)
        if self._rarity.shape != (len(self.words),):
            raise ModelError(
                f"text state must have one weight per word; got {self._rarity.size} for {len(self.words)} words. "
                "Save the model anew."
            )


def _strings(values: Any) -> list[str]:
    if not isinstance(values, list) or not all(isinstance(value, str) for value in values):
        raise ValueError("words that are not a list of str")
    return values
