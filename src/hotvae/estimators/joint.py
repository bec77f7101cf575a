"""The joint law on any base: a classifier of one's own learns which labels go together."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from sklearn.base import is_classifier
from sklearn.ensemble import RandomForestClassifier

from hotvae.config import require_count, require_number
from hotvae.errors import ConfigError
from hotvae.estimators.folds import Held
from hotvae.estimators.members import Candidate
from hotvae.estimators.recipe import Entry, Facts, Outcome, Plan, Workshop, fit_chosen, plan_for
from hotvae.estimators.stacked import RowsAre, StackedClassifier
from hotvae.training.progress import Style

# Trees of the forest that stands in where no base is given.
_N_TREES = 300


@dataclass(kw_only=True, eq=False, repr=False)
class JointClassifier(StackedClassifier):
    r"""Any classifier, and on top of it what labels say of each other: known labels, whole sets, best lists.

    The base is fitted on all but each fold, so that every row has probabilities of a model that was not shown it; each
    label's logits get a temperature and a bias; labels then learn to pass messages about what surprised them
    (:class:`~hotvae.estimators.joint_law.JointLaw`), or are left independent where that does not help on rows held
    out. Last, the base is fitted on all rows.

    Parameters
    ----------
    base : scikit-learn classifier, optional
        Has ``fit`` and ``predict_proba`` and takes a table of labels; it is cloned. Columns that are not numbers are
        made so before. None is a random forest of 300 trees.
    cv : int
        Folds.
    law_effort : float
        Epochs that messages are trained for: 1 is the usual number, less is cheaper.
    graph : "complete", "cooccurrence" or array of bool of shape (n_labels, n_labels)
        Which labels may talk to each other; ``"cooccurrence"`` keeps edges between labels seen together.
    coordinates : pair of str or int, optional
        The two columns of X that say where a row is. A :class:`~hotvae.Dataset` brings its own.
    hold_out : {"auto", "blocks", "groups", "rows"}
        What is held out together: ``"auto"`` takes whole groups where ``fit`` is given some, else whole blocks of the
        map where there are coordinates, else single rows.
    rows : {"auto", "table", "text", "molecules"}
        What a row of X is; ``"auto"`` looks.
    device : str
        Where messages are trained: ``"auto"``, ``"cpu"``, ``"cuda"`` or ``"mps"``.
    n_threads : int or None
        Threads of torch; None leaves torch's own number.
    progress : {"auto", "bar", "lines", "silent"}
        Whether to tell what is being done.
    random_state : int, RandomState or None
        The same number gives the same model on the same machine.

    Attributes
    ----------
    law_ : JointLaw or None
        What labels say of each other; None for a single label and for classes.
    recipe_ : Recipe
        What was done, in words: ``print("\n".join(model.recipe_.lines()))``.
    stack_ : Stack
        Temperature and bias of each label.
    left_out_ : ndarray of shape (n_samples, n_labels)
        Probabilities of the training rows by models that were not shown them.
    out_of_fold_ : OutOfFold or None
        All that the law was learned from; not kept in files.
    thresholds_ : dict
        Cut-off of each metric, chosen on rows held out.
    label_names_, classes_
        As in :class:`~hotvae.HotVAEClassifier`.

    Notes
    -----
    A file can hold a base only as code that runs when it is read, so ``save`` refuses; keep such a model in memory, or
    save a :class:`~hotvae.HotVAEClassifier`, whose members are arrays.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.linear_model import LogisticRegression
    >>> from sklearn.multioutput import MultiOutputClassifier
    >>> random = np.random.default_rng(0)
    >>> X = random.normal(size=(400, 1))
    >>> first = random.random(400) < 0.5
    >>> Y = np.column_stack([first, first ^ (random.random(400) < 0.05)])  # the second is mostly as the first
    >>> model = JointClassifier(base=MultiOutputClassifier(LogisticRegression()), random_state=0).fit(X, Y)
    >>> model.predict(X[:2], given=[[1, np.nan], [0, np.nan]])
    array([[1, 1],
           [0, 0]])
    """

    title: ClassVar[str] = "joint law on a base"
    cost: ClassVar[str] = "as many fits of the base as folds and one more, and seconds"

    base: Any = None
    cv: int = 5
    law_effort: float = 1.0
    graph: Literal["complete", "cooccurrence"] | NDArray[np.bool_] = "complete"
    coordinates: tuple[str | int, str | int] | None = None
    hold_out: Held = "auto"
    rows: RowsAre = "auto"
    device: str = "auto"
    n_threads: int | None = 1
    progress: Style = "silent"
    random_state: int | np.random.RandomState | None = None

    def check_parameters(self) -> None:
        """Find a parameter that is not allowed before any data are read."""
        super().check_parameters()
        require_count("cv", self.cv, 2)
        require_number("law_effort", self.law_effort, above=True)
        if self.base is not None and not (hasattr(self.base, "predict_proba") and is_classifier(self.base)):
            raise ConfigError(
                f"base must be a classifier with predict_proba; got {self.base!r}. Pass one, or None for a forest."
            )

    def _own_model(self) -> Any:
        return RandomForestClassifier(_N_TREES) if self.base is None else self.base

    def _plan(self, facts: Facts) -> Plan:
        usual = plan_for(facts.n_rows, facts.n_columns, facts.n_labels, "normal")
        return Plan(
            n_folds=self.cv,
            n_trees=_N_TREES,
            n_candidates=1,
            n_networks=0,
            n_race_folds=1,
            n_seeds=1,
            law_effort=float(self.law_effort),
            max_epochs=usual.max_epochs,
            batch_size=usual.batch_size,
            learning_rate=usual.learning_rate,
        )

    def _stacked(self, shop: Workshop, facts: Facts) -> Outcome:
        own = Candidate(type(shop.own).__name__, "own", "values")
        return fit_chosen(shop, [own], [Entry(own.name, own.kind, own.form, outcome="the base")])

    def _plain_parameters(self) -> dict[str, Any]:
        return super()._plain_parameters() | {"base": None}
