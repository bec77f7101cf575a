"""The base of all row transformers: what turns features as users have them into what a network is fed with."""

from collections.abc import Mapping, Sequence
from numbers import Integral
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import DTypeLike, NDArray
from sklearn.base import BaseEstimator, TransformerMixin, clone

from hotvae.config import RowKind
from hotvae.errors import ModelError


class RowTransformer(TransformerMixin, BaseEstimator):
    """A scikit-learn transformer that learns from training rows only and can be stored as JSON.

    A subclass has :meth:`fit`, :meth:`transform` and ``n_features_out``, says what a row becomes (``gives``), and, if
    it can be stored, what it has learned (``_learned`` and ``_restore``).
    """

    feature_names_in: tuple[str, ...] = ()

    gives: ClassVar[RowKind] = "numbers"
    """What a row becomes: a vector of numbers, or numbered tokens without or with an order."""

    is_column: ClassVar[bool] = False
    """Whether rows are one column of text, such as a sentence or a molecule each, not a table."""

    stored_as: ClassVar[str] = "transformer"
    """What messages call the state."""

    def check_parameters(self) -> None:
        """Find a parameter that is not allowed before any data are read."""

    def read_column(self, column: Any) -> NDArray[Any]:
        """Return the texts of a column, checked where all rows are seen, so that messages name them by their numbers.

        Only transformers of a column (``is_column``) have it.
        """
        raise NotImplementedError

    def fit(self, features: Any, y: Any = None, *, feature_names: Sequence[str] | None = None) -> Self:
        """Learn from training rows.

        Parameters
        ----------
        features : ndarray, sparse array or DataFrame of shape (n_samples, n_features), or sequence of str
            Training rows: a table, or one column of texts.
        y : ignored
            There for scikit-learn.
        feature_names : sequence of str, optional
            Names of the columns of an array, or of the one column.

        Returns
        -------
        the transformer itself

        Raises
        ------
        DataError
            No rows, or rows that cannot be learned from.
        ConfigError
            A parameter that is not allowed, or not for these rows.
        """
        raise NotImplementedError

    def transform(self, features: Any, dtype: DTypeLike = np.float32) -> Any:
        """Apply what was learned; rows do not influence each other.

        Parameters
        ----------
        features : as in :meth:`fit`
            Columns of a frame are found by name, those of an array by position.
        dtype : dtype
            Number type of the result, where it is numbers; the arithmetic is done in 64 bits.

        Returns
        -------
        ndarray or csr_array of shape (n_samples, n_features_out), or TokenRows

        Raises
        ------
        DataError
            Other columns than in training, or values that are not allowed.
        """
        raise NotImplementedError

    def state(self) -> dict[str, Any]:
        """Parameters and everything learned, ready for JSON; floats survive exactly."""
        parameters = {name: _plain(value) for name, value in self.get_params(deep=False).items()}
        return parameters | {"feature_names": list(self.feature_names_in)} | self._learned()

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> Self:
        """Rebuild the transformer from what :meth:`state` returned, possibly by way of JSON.

        Raises
        ------
        ModelError
            Entries that are absent or do not fit together.
        """
        try:
            restored = cls(**{name: state[name] for name in cls._get_param_names()})
            restored.check_parameters()
            restored.feature_names_in = tuple(state["feature_names"])
            if not all(isinstance(name, str) for name in restored.feature_names_in):
                raise TypeError("names of columns must be texts")
            restored._restore(state)
        except ModelError:
            raise
        except (KeyError, TypeError, ValueError) as error:
            raise ModelError(f"{cls.stored_as} state must be complete; got {error!r}. Save the model anew.") from error
        return restored

    def _learned(self) -> dict[str, Any]:
        """Return what was learned beside the names of the columns, ready for JSON."""
        raise NotImplementedError

    def _restore(self, state: Mapping[str, Any]) -> None:
        """Take back what ``_learned`` returned."""
        raise NotImplementedError


def _plain(value: Any) -> Any:
    """Return a parameter as JSON has it: numpy's whole numbers as Python's."""
    return int(value) if isinstance(value, Integral) and not isinstance(value, bool) else value


class OtherTransformer(RowTransformer):
    """Any scikit-learn transformer from tables to numbers, as networks are fed by ours.

    Parameters
    ----------
    transformer : scikit-learn transformer
        Fitted on training rows; it must return a table of numbers, dense or sparse.

    Examples
    --------
    >>> from sklearn.preprocessing import StandardScaler
    >>> OtherTransformer(StandardScaler()).fit([[1.0], [3.0]]).transform([[5.0]])
    array([[3.]], dtype=float32)
    """

    def __init__(self, transformer: Any) -> None:
        self.transformer = transformer

    def fit(self, features: Any, y: Any = None, *, feature_names: Sequence[str] | None = None) -> Self:
        """Fit a copy of the transformer on training rows."""
        self.transformer_ = clone(self.transformer).fit(features)
        self.n_features_out = int(self.transformer_.transform(features[:1]).shape[1])
        return self

    def transform(self, features: Any, dtype: DTypeLike = np.float32) -> Any:
        """Apply the transformer; the result has the number type of the network."""
        table: Any = self.transformer_.transform(features)
        if hasattr(table, "tocsr"):  # sparse
            return table.tocsr().astype(dtype)
        return np.asarray(table, dtype=dtype)
