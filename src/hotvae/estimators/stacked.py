"""Members that are fitted out of fold, stacked, and a law of what labels say of each other on top.

This is what :class:`~hotvae.HotVAEClassifier`, which finds its members itself, and :class:`~hotvae.JointClassifier`,
which is given one, have in common: they differ in who is stacked.
"""

from __future__ import annotations

import warnings
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal, Self

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import sparse
from scipy.special import expit
from sklearn.utils.validation import check_is_fitted
from torch import Tensor, from_numpy

from hotvae.config import require_choice
from hotvae.data.dataset import Dataset
from hotvae.errors import ConfigError, DataError, DataWarning, ModelError
from hotvae.estimators.base import LabelClassifier, named_tables
from hotvae.estimators.folds import deal_folds
from hotvae.estimators.joint_law import JointLaw, LawCandidate
from hotvae.estimators.law_rows import LawRows
from hotvae.estimators.members import Candidate, Member, mean_logits, restore_member
from hotvae.estimators.recipe import Facts, Forms, Outcome, Plan, Recipe, Workshop, make_forms, speak
from hotvae.estimators.stack import Stack, logit_loss
from hotvae.estimators.thresholds import tune_thresholds
from hotvae.estimators.trust import Trust, TrustRows, learn_trust
from hotvae.features import TRANSFORMERS, FeatureScaler, Rows, RowTransformer
from hotvae.features.columns import ColumnPlan
from hotvae.features.molecules import atoms_of
from hotvae.graph import check_graph, cooccurrence_graph
from hotvae.training.settings import Training

RowsAre = Literal["auto", "table", "text", "molecules"]

# Texts that must read as molecules for all of them to be taken for such.
_LOOKED_AT = 200
# Columns of features up to which they may change edges between labels themselves.
_MOST_GATES = 300
# What makes rows ready that are one column of text.
OF_COLUMN = {"text": "bag", "molecules": "elements"}
_COLUMN_LINE = {"text": "1 column of texts, as weighted words", "molecules": "1 column of molecules, as their elements"}


@dataclass(frozen=True, eq=False)
class OutOfFold:
    """What the members say of training rows that they were not shown: all that a law is learned from.

    Attributes
    ----------
    logits : ndarray of shape (n_rows, n_labels)
        Stacked logits.
    gates : ndarray of shape (n_rows, n_features)
        What may change how labels speak to each other.
    labels : ndarray of shape (n_rows, n_labels)
        0, 1 or NaN.
    folds : ndarray of int of shape (n_rows,)
        Fold of each row.
    graph : ndarray of bool, optional
        Which labels may talk to each other; None is all.
    seed : int
        Decides everything that is random.
    effort : float
        Epochs of the law, as a share of their usual number.
    """

    logits: NDArray[Any]
    gates: NDArray[Any]
    labels: NDArray[Any]
    folds: NDArray[np.intp]
    graph: NDArray[np.bool_] | None
    seed: int
    effort: float

    def learn_law(self, training: Training, candidates: Sequence[LawCandidate] | None = None) -> JointLaw:
        """Learn what labels say of each other; ``candidates`` are the ways to speak that are tried."""
        return JointLaw.learn(
            self.logits,
            self.gates,
            self.labels,
            held=self.folds,
            graph=self.graph,
            candidates=candidates,
            training=training,
            seed=self.seed,
            effort=self.effort,
        )


class StackedClassifier(LabelClassifier):
    """Learns members out of fold, stacks them, and learns what labels say of each other.

    A subclass has parameters ``graph``, ``coordinates``, ``hold_out``, ``rows``, ``device``, ``n_threads``,
    ``progress`` and ``random_state``, and says how much work to do (``_plan``) and who is stacked (``_stacked``).
    """

    takes: ClassVar[str] = "tables, dense or sparse, texts, molecules; labels may have gaps"
    holds_out_itself: ClassVar[bool] = True

    # What a subclass says ---------------------------------------------------------------------------------

    @abstractmethod
    def _plan(self, facts: Facts) -> Plan:
        """Say how much work a table is worth."""

    @abstractmethod
    def _stacked(self, shop: Workshop, facts: Facts) -> Outcome:
        """Fit members on folds and on all rows, and stack them."""

    def _own_model(self) -> Any:
        """Return the classifier of the user's own; None where there is none."""
        return None

    def _scratch(self) -> Path | None:
        """Return the folder where fitted members are kept until the model is whole."""
        return None

    def _wants_law(self) -> bool:
        """Say whether to learn which labels go together."""
        return True

    # Fitting ----------------------------------------------------------------------------------------------

    def fit(self, X: Any, y: Any = None, validation: Any = None, groups: Any = None) -> Self:
        """Learn from a table.

        Parameters
        ----------
        X : array, sparse matrix or DataFrame of shape (n_samples, n_features), column of text, or Dataset
            Features; NaN is a missing value. A frame may have dates, categories and text. A :class:`~hotvae.Dataset`
            brings its labels, coordinates and groups, and the names of all.
        y : array or DataFrame of shape (n_samples, n_labels), or 1-D array of classes
            0, 1, or NaN for a label that was not observed. None with a Dataset. The splitters that scikit-learn takes
            by itself refuse NaN: pass ``cv=KFold(5)`` to ``cross_val_score`` and searches.
        validation : (X, y) or Dataset, optional
            Rows that choose the thresholds, and weigh the members together with the rows held out in folds. By default
            those in folds do both.
        groups : array of shape (n_samples,), optional
            Rows that belong together, such as visits of one site: they are held out together.

        Returns
        -------
        self
        """
        self.check_parameters()
        where = self.coordinates
        if isinstance(X, Dataset):
            if y is not None:
                raise ConfigError("y must be left out with a Dataset, which brings its labels; got both. Pass one.")
            groups = X.groups if groups is None else groups
            X, y, where = _tables_of(X, where)
        if isinstance(validation, Dataset):
            held_x, held_y, _ = _tables_of(validation, self.coordinates)
            validation = held_x, held_y
        self._where, self._groups = where, None if groups is None else np.asarray(groups)
        self.rows_ = what_rows_are(X) if self.rows == "auto" else self.rows
        return self._fit_tables(X, y, validation)

    def _fit_tables(self, X: Any, y: Any, validation: Any) -> Self:
        return super().fit(X, y, validation)

    def check_parameters(self) -> None:
        """Find a parameter that is not allowed before any data are read."""
        require_choice("rows", self.rows, ("auto", "table", "text", "molecules"))
        require_choice("hold_out", self.hold_out, ("auto", "blocks", "groups", "rows"))
        self._training().checked()

    def _training(self) -> Training:
        return Training(device=self.device, n_threads=self.n_threads)

    def new_features(self) -> RowTransformer:
        """Make the untrained transformer that makes rows ready."""
        if getattr(self, "rows_", "table") in OF_COLUMN:
            return TRANSFORMERS[OF_COLUMN[self.rows_]]()
        return ColumnPlan(getattr(self, "_where", self.coordinates))

    def _check_features(self, X: Any, reset: bool) -> Any:
        if isinstance(X, Dataset):
            X = _tables_of(X, None)[0]
        return super()._check_features(X, reset)

    def _split(
        self, features: Any, labels: NDArray[Any], validation: Any, seed: int
    ) -> tuple[NDArray[np.intp], Rows | None]:
        """Learn from all rows: folds hold out each of them once."""
        if validation is None:
            return np.arange(len(labels)), None
        return super()._split(features, labels, validation, seed)

    def _learn(self, train: Rows, validation: Rows | None, seed: int) -> None:
        labels, table = train.observed(), train.features
        plan = self.features_
        facts = _facts(plan, table, labels.shape[1])
        work = self._plan(facts)
        say = speak if self.progress != "silent" else _say_nothing
        columns = plan.lines() if isinstance(plan, ColumnPlan) else [_COLUMN_LINE[self.rows_]]
        places = None
        if facts.places is not None:
            places = np.asarray(_numbers(table)[:, list(facts.places)], dtype=np.float64)
        folds = deal_folds(
            labels, work.n_folds, seed, held=self.hold_out, places=places, degrees=facts.degrees, groups=self._groups
        )
        for line in [f"columns: {line}" for line in columns] + [f"held out: {folds.how}"]:
            say(line)
        self.forms_ = Forms(make_forms(facts), _names_of(plan, table))
        shop = Workshop(
            self.forms_,
            table,
            labels,
            folds,
            self._training(),
            work,
            seed,
            own=self._own_model(),
            scratch=self._scratch(),
            say=say,
        )
        found = self._stacked(shop, facts)
        self.members_ = found.members
        if validation is not None:
            found = found.with_rows(self._member_logits(validation.features), validation.observed())
        self.stack_, unseen = found.stack, found.labels
        self.member_logits_: list[NDArray[np.float32]] | None = [t.astype(np.float32) for t in found.member_logits]
        self._learned_from = unseen
        self.recipe_ = Recipe(columns, folds.how, work, found.entries, logit_loss(unseen, found.left_out))
        say(self.recipe_.stack_line())
        self.law_: JointLaw | None = None
        self.out_of_fold_: OutOfFold | None = None
        kept = [candidate.form for candidate, _ in self.members_]
        if facts.n_labels > 1 and self.target_ == "labels":
            self.gate_ = _gate_form(facts)
            form: Any = None if self.gate_ is None else shop.forms.learn(self.gate_, table)
            if self.gate_ is not None and validation is not None:
                form = np.vstack([form, self.forms_.makers[self.gate_].transform(validation.features)])
            gates = _gates(form, found.left_out)
            # Validation rows are a fold of their own.
            number = np.append(folds.of_row, np.full(len(unseen) - len(labels), folds.n_folds))
            self.out_of_fold_ = OutOfFold(
                found.left_out, gates, unseen, number, self._label_graph(labels), seed, work.law_effort
            )
            kept += [] if self.gate_ is None else [self.gate_]
            if self._wants_law():
                say("learning which labels go together")
                self.law_ = self.out_of_fold_.learn_law(self._training())
                self.recipe_.together = law_line(self.law_)
                say(self.recipe_.together)
        left_out = found.left_out[: len(labels)]
        self.trust_: Trust | None = learn_trust(
            table,
            left_out,
            labels if self.target_ == "labels" else None,
            folds.of_row,
            folds.blocks,
            seed,
            _names_of(plan, table),
        )
        self.forms_.forget_tables(kept)
        self.left_out_: NDArray[np.float64] | None = expit(left_out)

    def _tune_thresholds(self, train: Rows, held: Rows | None) -> dict[str, float]:
        if held is not None:
            return super()._tune_thresholds(train, held)
        return tune_thresholds(train.observed(), np.asarray(self.left_out_))

    # Predicting -------------------------------------------------------------------------------------------

    def _probs(self, features: Any) -> NDArray[np.floating[Any]]:
        probs: NDArray[np.floating[Any]] = expit(self._logits(features)).astype(np.float32)
        return probs

    def _logits(self, features: Any) -> NDArray[np.float64]:
        """Return stacked logits of rows as the column plan makes them."""
        if features.shape[0] == 0:
            return np.zeros((0, self.n_labels_))
        return self.stack_.logits(self._member_logits(features))

    def _member_logits(self, features: Any) -> list[NDArray[np.float64]]:
        """Return what each member says of rows as the column plan makes them."""
        forms: dict[str, Any] = {}
        for candidate, _ in self.members_:
            if candidate.form not in forms:
                forms[candidate.form] = self.forms_.makers[candidate.form].transform(features)
        return [mean_logits(members, forms[c.form]) for c, members in self.members_]

    # Labels together --------------------------------------------------------------------------------------

    def _label_graph(self, labels: NDArray[Any]) -> NDArray[np.bool_] | None:
        if isinstance(self.graph, str):
            require_choice("graph", self.graph, ("complete", "cooccurrence"))
            return None if self.graph == "complete" else cooccurrence_graph(labels)
        return check_graph(np.asarray(self.graph), self.n_labels_)

    def _base(self, features: Any) -> tuple[NDArray[np.float64], NDArray[Any]]:
        """Return stacked logits of rows, and what changes the edges between labels."""
        logits = self._logits(features)
        form = None if self.gate_ is None else self.forms_.makers[self.gate_].transform(features)
        return logits, _gates(form, logits)

    def law_rows(self, X: Any) -> LawRows:
        """Put rows under the law of their labels, to read it: what the base says of them, and what changes the edges.

        Parameters
        ----------
        X : array, sparse matrix or DataFrame of shape (n_samples, n_features)
            Features, columns as in training.

        Returns
        -------
        LawRows

        Raises
        ------
        ConfigError
            A model that has not learned which labels go together.
        """
        check_is_fitted(self)
        rows = self._law_rows(self._read(X))
        if rows is None:
            raise ConfigError(
                f"model must have learned which labels go together; got {type(self).__name__} without a law. Train it "
                "anew with joint=True on a table of labels."
            )
        return rows

    def resampled_laws(self, n_fits: int, seed: int = 0) -> list[JointLaw]:
        """Learn the law anew on resampled training rows, to see how sure is what it says.

        What the members say, and through what labels speak, stays as it is.

        Parameters
        ----------
        n_fits : int
            Resamples, drawn with replacement.
        seed : int
            Decides which rows.

        Returns
        -------
        list of JointLaw

        Raises
        ------
        ModelError
            A model that was read from a file: training rows are not kept there.
        """
        check_is_fitted(self)
        kept = getattr(self, "out_of_fold_", None)
        if kept is None:
            raise ModelError(
                "model must have been fitted here for its law to be learned anew; got one read from a file. Fit it, or "
                "pass several models that were trained with different seeds."
            )
        if self.law_ is None or self.law_.messages is None:
            return [JointLaw(None, self.n_labels_)] * n_fits
        random = np.random.default_rng([seed, 5])
        laws = []
        for number in range(n_fits):
            picked = random.integers(len(kept.labels), size=len(kept.labels))
            rows = kept.logits[picked], kept.gates[picked], kept.labels[picked]
            laws.append(self.law_.again(*rows, kept.graph, self._training(), kept.seed + number, kept.effort))
        return laws

    def _law_rows(self, features: Any) -> LawRows | None:
        return None if self.law_ is None else LawRows(self.law_, *self._base(features))

    @property
    def conditional(self) -> bool:  # type: ignore[override]  # others know it before they are fitted
        """Whether known labels can be given for a prediction of the others."""
        return self._wants_law()

    @property
    def draws_jointly(self) -> bool:
        """Whether labels depend on each other in the draws of the model."""
        return self.law_ is not None and self.law_.messages is not None

    def _log_likelihood(self, features: Any, labels: NDArray[np.float32], n_orders: int) -> NDArray[np.float64]:
        if self.law_ is not None:
            return super()._log_likelihood(features, labels, n_orders)
        odds = self._logits(features)
        likelihood: NDArray[np.float64] = np.nansum(labels * odds - np.logaddexp(0, odds), axis=1)
        return likelihood

    def _probs_given(self, features: Any, given: NDArray[np.float32]) -> NDArray[np.floating[Any]]:
        if self.law_ is None:
            raise ConfigError(
                "given must go with a model that has learned which labels go together; got joint=False, or a single "
                f"label, with {self.n_labels_} labels. Leave it out, or train a table of labels with joint=True."
            )
        return super()._probs_given(features, given)

    # Trust ------------------------------------------------------------------------------------------------

    def trust(self, X: Any) -> TrustRows:
        """Say how far rows are from those of training, and whether that is within what held-out rows have seen.

        Parameters
        ----------
        X : array or DataFrame of shape (n_samples, n_features)
            Features, columns as in training.

        Returns
        -------
        TrustRows
            ``dissimilarity``, ``inside`` and ``n_beyond``, a value a row.

        Raises
        ------
        ConfigError
            A model of texts, molecules or words, or one that found no recipe itself: it knows no distances.
        """
        check_is_fitted(self)
        if self.trust_ is None or self.trust_.area is None:
            raise ConfigError(
                "model must know its training rows to say how far others are; got one of a sparse table, of texts, of "
                "molecules, without a recipe of its own, or of an older version. Train a table with recipe 'auto'."
            )
        return self.trust_.area.judge(self._read(X))

    def presence_calls(self, probs: Any, level: float = 0.9) -> NDArray[np.int8]:
        """Say which labels are present, absent, or cannot be told at a promised share of right calls.

        Parameters
        ----------
        probs : array of shape (n_samples, n_labels)
            From :meth:`predict_proba`, without ``given``: what is promised was learned for these.
        level : {0.8, 0.9, 0.95}
            Of the rows that have a label, and of those that have not, the share in which the call is right or
            "cannot tell".

        Returns
        -------
        ndarray of int8 of shape (n_samples, n_labels)
            0 absent, 1 present, 2 cannot tell.
        """
        check_is_fitted(self)
        if self.trust_ is None or self.trust_.sets is None:
            raise ConfigError(
                "model must have held out rows to say which calls are safe; got one of classes, without a recipe of "
                "its own, or of an older version. Train a table of labels with recipe 'auto'."
            )
        return self.trust_.sets.calls(probs, level)

    # Saving -----------------------------------------------------------------------------------------------

    def _learned(self) -> tuple[dict[str, Any], dict[str, Tensor]]:
        tensors: dict[str, Tensor] = {}
        members = []
        for i, (candidate, fitted) in enumerate(self.members_):
            members.append(
                {
                    "name": candidate.name,
                    "kind": candidate.kind,
                    "form": candidate.form,
                    "settings": dict(candidate.settings),
                    "n_epochs": [member.n_epochs for member in fitted],
                }
            )
            for j, member in enumerate(fitted):
                tensors |= {f"member.{i}.{j}.{name}": tensor for name, tensor in member.tensors().items()}
        notes = {
            "rows": self.rows_,
            "members": members,
            "forms": {name: maker.state() for name, maker in self.forms_.makers.items()},
            "stack": self.stack_.state(),
            "recipe": self.recipe_.state(),
            "law": None,
        }
        if self.law_ is not None:
            notes["law"] = {"gate": self.gate_, **self.law_.notes()}
            tensors |= {f"law.{name}": tensor for name, tensor in self.law_.tensors().items()}
        if self.trust_ is not None:
            notes["trust"] = self.trust_.notes()
            arrays = self.trust_.arrays()
            tensors |= {f"trust.{name}": from_numpy(np.ascontiguousarray(array)) for name, array in arrays.items()}
        return notes, tensors

    def _restore(self, config: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> None:
        self.rows_ = config["rows"]
        self.left_out_, self.member_logits_, self.out_of_fold_, self.trust_ = None, None, None, None
        self.recipe_ = Recipe.from_state(config["recipe"])
        self.forms_ = Forms({name: FeatureScaler.from_state(state) for name, state in config["forms"].items()})
        self.members_ = []
        for i, entry in enumerate(config["members"]):
            settings = {name: tuple(v) if isinstance(v, list) else v for name, v in entry["settings"].items()}
            candidate = Candidate(entry["name"], entry["kind"], entry["form"], settings)
            fitted: list[Member] = []
            for j, n_epochs in enumerate(entry["n_epochs"]):
                start = f"member.{i}.{j}."
                own = {name.removeprefix(start): tensors[name] for name in tensors if name.startswith(start)}
                fitted.append(restore_member(candidate, own, n_epochs))
            self.members_.append((candidate, fitted))
        self.stack_ = Stack.from_state(config["stack"], len(self.members_), self.n_labels_)
        self.law_ = None
        if config["law"] is not None:
            self.gate_ = config["law"]["gate"]
            own = {name.removeprefix("law."): tensors[name] for name in tensors if name.startswith("law.")}
            self.law_ = JointLaw.from_tensors(own, config["law"], self.n_threads)
        if config.get("trust") is not None:  # models of before it do without
            arrays = {n.removeprefix("trust."): t.numpy() for n, t in tensors.items() if n.startswith("trust.")}
            self.trust_ = Trust.from_parts(config["trust"], arrays, self.n_labels_)
        self._try()

    def _try(self) -> None:
        """Predict a row of which nothing is known: parts that are at odds fail here, not midway through a table."""
        plan, width = self.features_, len(self.features_.feature_names_in)
        blank: Any = np.full((1, width), np.nan)
        if plan.is_column:
            blank = np.array(["C"], dtype=object)  # a text, and a molecule
        elif plan.is_sparse:
            blank = sparse.csr_array((1, width))
        elif isinstance(plan, ColumnPlan):
            blank = pd.DataFrame(blank, columns=list(plan.feature_names_in))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DataWarning)  # that its values are missing
            row = plan.transform(blank)
            if self.law_ is None:
                found: NDArray[Any] = self._logits(row)
            else:
                logits, gates = self._base(row)
                found = self.law_.logits(logits, gates, np.zeros_like(logits))
            if self.trust_ is not None and self.trust_.area is not None:
                self.trust_.area.judge(row)
        if found.shape != (1, self.n_labels_) or not np.isfinite(found).all():
            raise ValueError(f"members must give {self.n_labels_} finite numbers for a row")


def _say_nothing(line: str) -> None:
    return None


def _facts(plan: RowTransformer, table: Any, n_labels: int) -> Facts:
    n_rows, n_columns = table.shape
    if isinstance(plan, ColumnPlan):
        return Facts(n_rows, n_columns, n_labels, plan.is_binary or plan.is_sparse, plan.places, plan.degrees)
    return Facts(n_rows, n_columns, n_labels, is_bag=True)


def _gate_form(facts: Facts) -> str | None:
    """Return the form of the features that changes edges between labels; None where it would be too wide."""
    return "scaled" if not facts.is_bag and facts.n_columns <= _MOST_GATES else None


def _gates(form: Any, logits: NDArray[np.float64]) -> NDArray[Any]:
    """Return what may change how labels speak to each other: features, or what these say of the labels."""
    return expit(logits) if form is None else np.asarray(form)


def law_line(law: JointLaw) -> str:
    """Say in a line what was learned of labels together."""
    if law.messages is None:
        return "labels together: messages do not help on rows held out; labels are independent"
    chosen = next(score for score in reversed(law.scores) if score.get("chosen"))
    short = "" if chosen["share_of_epochs"] == 1 else f" after {chosen['share_of_epochs']:.0%} of the training"
    return (
        f"labels together: {law.messages.config.n_rounds} rounds of messages; joint log likelihood per label "
        f"{-chosen['nll']:.4f} on rows held out{short}, {-chosen['independent']:.4f} if labels were independent"
    )


def _names_of(plan: RowTransformer, table: Any) -> tuple[str, ...] | None:
    return plan.columns_out if isinstance(plan, ColumnPlan) and isinstance(table, np.ndarray) else None


def _numbers(table: Any) -> NDArray[Any]:
    """Return a table of which some columns are wanted as numbers, by their places."""
    values: NDArray[Any] = table.to_numpy() if isinstance(table, pd.DataFrame) else table
    return values


def _tables_of(data: Dataset, where: Any) -> tuple[Any, pd.DataFrame, Any]:
    """Return features with the coordinates among them, labels, and the columns of the coordinates."""
    if data.coordinates is not None and where is None:
        where = data.coordinate_names
        if not set(where) <= set(data.feature_names):
            data = data.with_coordinates_as_features()
    features, labels = named_tables(data)
    return features, labels, where


def what_rows_are(X: Any) -> RowsAre:
    """Tell a table from one column of texts or molecules."""
    column = X.iloc[:, 0] if isinstance(X, pd.DataFrame) and X.shape[1] == 1 else X
    if isinstance(column, pd.DataFrame) or sparse.issparse(column):
        return "table"
    values = np.asarray(column, dtype=object)
    if values.ndim == 2 and values.shape[1] == 1:
        values = values[:, 0]
    texts = [value for value in values.ravel() if isinstance(value, str)]
    # Few different words in many rows are a category.
    if values.ndim != 1 or len(texts) < 0.5 * len(values) or len(set(texts)) <= 0.5 * len(values):
        return "table"
    for smiles in texts[:_LOOKED_AT]:
        try:
            atoms_of(smiles)
        except DataError:
            return "text"
    return "molecules"
