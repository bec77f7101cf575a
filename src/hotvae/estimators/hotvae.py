"""HOT-VAE as most people use it: it looks at the columns, finds its own recipe, and learns which labels go together."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, Literal, Self

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import sparse
from scipy.special import expit
from sklearn.base import clone, is_classifier
from sklearn.utils.validation import check_is_fitted
from torch import Tensor, from_numpy

from hotvae.config import require_choice, require_count
from hotvae.data.dataset import Dataset
from hotvae.errors import ConfigError, DataError, ModelError, listed
from hotvae.estimators.base import LabelClassifier, named_tables, restored_parameter
from hotvae.estimators.folds import Held, deal_folds
from hotvae.estimators.hotvae_network import HotVAENetwork
from hotvae.estimators.joint_law import JointLaw
from hotvae.estimators.members import Candidate, Member, mean_logits, restore_member
from hotvae.estimators.recipe import (
    Effort,
    Facts,
    Forms,
    Recipe,
    Workshop,
    candidates_for,
    follow_recipe,
    make_forms,
    plan_for,
    speak,
)
from hotvae.estimators.stack import Stack, fit_stack, logit_loss
from hotvae.estimators.thresholds import tune_thresholds
from hotvae.estimators.trust import Trust, TrustRows, learn_trust
from hotvae.features import TRANSFORMERS, FeatureScaler, Rows, RowTransformer
from hotvae.features.columns import ColumnPlan
from hotvae.features.molecules import atoms_of
from hotvae.graph import check_graph, cooccurrence_graph
from hotvae.training.progress import Style
from hotvae.training.settings import Training

RecipeName = Literal["auto", "network", "paper"]
RowsAre = Literal["auto", "table", "text", "molecules"]

# Texts that must read as molecules for all of them to be taken for such.
_LOOKED_AT = 200
# Columns of features up to which they may change edges between labels themselves.
_MOST_GATES = 300
# What makes rows ready that are one column of text.
_OF_COLUMN = {"text": "bag", "molecules": "elements"}


@dataclass(kw_only=True, eq=False, repr=False)
class HotVAEClassifier(LabelClassifier):
    r"""Multi-label classifier that needs no settings: it finds its own recipe, and learns which labels go together.

    It looks at the columns, holds out rows as the model will be used (whole blocks of the map where there are
    coordinates), lets a handful of quick models race (trees, a ridge, networks on several forms of the columns), and
    stacks those that make the prediction better. All it decided is in ``recipe_``. On top of the stack, labels pass
    messages about what surprised them: what is known of some labels, or drawn, moves the others
    (:class:`~hotvae.estimators.joint_law.JointLaw`); where that does not help on rows held out, it is left away.

    Parameters
    ----------
    recipe : {"auto", "network", "paper"}
        ``"auto"`` is said above. ``"network"`` trains ``network`` alone, for those who search settings themselves;
        ``"paper"`` is the model of the paper, as printed (:meth:`HotVAENetwork.from_recipe`).
    base : "auto", None or scikit-learn classifier
        What networks are stacked with: ``"auto"`` races trees and a ridge, None leaves networks alone, and a
        classifier of scikit-learn takes their place.
    effort : {"quick", "normal", "thorough"} or float
        How hard to try; a number is seconds of an ordinary core.
    joint : bool
        Learn which labels go together, for ``predict_proba(X, given=...)``, :meth:`sample` and
        :meth:`log_likelihood`; probabilities of single labels are the same with and without.
    graph : "complete", "cooccurrence" or array of bool of shape (n_labels, n_labels)
        Which labels may talk to each other; ``"cooccurrence"`` keeps edges between labels seen together.
    coordinates : pair of str or int, optional
        The two columns of X that say where a row is. They are used as values and as places, on the sphere where they
        are longitude and latitude. A :class:`~hotvae.Dataset` brings its own.
    hold_out : {"auto", "blocks", "groups", "rows"}
        What is held out together: ``"auto"`` takes whole groups where ``fit`` is given some, else whole blocks of the
        map where there are coordinates, else single rows.
    rows : {"auto", "table", "text", "molecules"}
        What a row of X is; ``"auto"`` looks.
    network : HotVAENetwork, optional
        The network of the recipe ``"network"``, with settings of your own.
    device : str
        Where networks are trained: ``"auto"``, ``"cpu"``, ``"cuda"`` or ``"mps"``.
    n_threads : int or None
        Threads of torch; None leaves torch's own number.
    progress : {"auto", "bar", "lines", "silent"}
        Whether to tell what is being done.
    state_file : path, optional
        Folder where fitted members are kept until the model is whole; a fit that finds it goes on from there.
    random_state : int, RandomState or None
        The same number gives the same model on the same machine.

    Attributes
    ----------
    recipe_ : Recipe
        What was decided, and why: ``print("\n".join(model.recipe_.lines()))``.
    members_ : list of (Candidate, list of fitted members)
        The models that are stacked.
    stack_ : Stack
        Their weights, and the corrections of each label.
    law_ : JointLaw or None
        What labels say of each other; None without ``joint``, for a single label and for classes.
    left_out_ : ndarray of shape (n_samples, n_labels) or None
        Probabilities of the training rows by models that were not shown them; not kept in files.
    member_logits_ : list of ndarray of shape (n_samples, n_labels) or None
        The same of each member by itself, as logits before stacking; not kept in files.
    trust_ : Trust or None
        Where it can be believed, learned from the same rows: see :meth:`trust` and :meth:`presence_calls`.
    thresholds_ : dict
        Cut-off of each metric, chosen on rows held out.
    label_names_ : ndarray of str
        Names of the labels.
    classes_ : ndarray
        Label indices, or the classes of a 1-D y.

    Examples
    --------
    >>> import numpy as np
    >>> from hotvae import HotVAEClassifier
    >>> X = np.linspace(-1, 1, 200)[:, None]
    >>> Y = np.column_stack([X[:, 0] > 0, X[:, 0] < 0.5])
    >>> HotVAEClassifier(effort="quick", random_state=0).fit(X, Y).predict([[-0.8], [0.8]])
    array([[0, 1],
           [1, 0]])
    """

    title: ClassVar[str] = "HOT-VAE"
    takes: ClassVar[str] = "tables, dense or sparse, texts, molecules; labels may have gaps"
    cost: ClassVar[str] = "seconds to minutes"
    citation: ClassVar[str] = HotVAENetwork.citation

    holds_out_itself: ClassVar[bool] = True

    recipe: RecipeName = "auto"
    base: Any = "auto"
    effort: Effort | float = "normal"
    joint: bool = True
    graph: Literal["complete", "cooccurrence"] | NDArray[np.bool_] = "complete"
    coordinates: tuple[str | int, str | int] | None = None
    hold_out: Held = "auto"
    rows: RowsAre = "auto"
    network: HotVAENetwork | None = None
    device: str = "auto"
    n_threads: int | None = 1
    progress: Style = "silent"
    state_file: str | os.PathLike[str] | None = None
    random_state: int | np.random.RandomState | None = None

    # Fitting ----------------------------------------------------------------------------------------------

    def fit(self, X: Any, y: Any = None, validation: Any = None, groups: Any = None) -> Self:
        """Find a recipe for a table, and train by it.

        Parameters
        ----------
        X : array, sparse matrix or DataFrame of shape (n_samples, n_features), column of text, or Dataset
            Features; NaN is a missing value. A frame may have dates, categories and text. A :class:`~hotvae.Dataset`
            brings its labels, coordinates and groups, and the names of all.
        y : array or DataFrame of shape (n_samples, n_labels), or 1-D array of classes
            0, 1, or NaN for a label that was not observed. None with a Dataset.
        validation : (X, y) or Dataset, optional
            Rows that choose the thresholds. By default these are chosen on the rows held out in folds.
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
        self.single_: HotVAENetwork | None = None
        if self.recipe != "auto":
            return self._fit_single(X, y, validation)
        self.rows_ = _what_rows_are(X) if self.rows == "auto" else self.rows
        self._where, self._groups = where, None if groups is None else np.asarray(groups)
        return super().fit(X, y, validation)

    def check_parameters(self) -> None:
        """Find a parameter that is not allowed before any data are read."""
        require_choice("recipe", self.recipe, ("auto", "network", "paper"))
        require_choice("rows", self.rows, ("auto", "table", "text", "molecules"))
        require_choice("hold_out", self.hold_out, ("auto", "blocks", "groups", "rows"))
        plan_for(100, 1, 1, self.effort)
        self._training().checked()
        is_ours = self.base is None or (isinstance(self.base, str) and self.base == "auto")
        if not (is_ours or (hasattr(self.base, "predict_proba") and is_classifier(self.base))):
            raise ConfigError(
                f"base must be 'auto', None or a scikit-learn classifier; got {self.base!r}. Choose one of them."
            )
        if self.network is not None and self.recipe != "network":
            raise ConfigError(f"network must go with recipe 'network'; got recipe {self.recipe!r}. Leave one out.")

    def _training(self) -> Training:
        return Training(device=self.device, n_threads=self.n_threads)

    def new_features(self) -> RowTransformer:
        """Make the untrained transformer that makes rows ready."""
        if getattr(self, "rows_", "table") in _OF_COLUMN:
            return TRANSFORMERS[_OF_COLUMN[self.rows_]]()
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
        work = plan_for(facts.n_rows, facts.n_columns, facts.n_labels, self.effort)
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
        candidates = candidates_for(facts, work)
        if self.base is None:
            candidates = [candidate for candidate in candidates if candidate.kind == "network"]
        elif self.base != "auto":
            own = Candidate(type(self.base).__name__, "own", "values")
            candidates = [own, *(candidate for candidate in candidates if candidate.kind == "network")]
        self.forms_ = Forms(make_forms(facts), _names_of(plan, table))
        scratch = None if self.state_file is None else Path(self.state_file)
        own_model = None if isinstance(self.base, str) else self.base
        shop = Workshop(
            self.forms_, table, labels, folds, self._training(), work, seed, own=own_model, scratch=scratch, say=say
        )
        found = follow_recipe(shop, candidates)
        self.members_, self.stack_ = found.members, found.stack
        self.member_logits_: list[NDArray[np.float32]] | None = [t.astype(np.float32) for t in found.member_logits]
        self._learned_from = labels
        self.recipe_ = Recipe(columns, folds.how, work, found.entries, logit_loss(labels, found.left_out))
        say(self.recipe_.stack_line())
        self.law_ = None
        kept = [candidate.form for candidate, _ in self.members_]
        if self.joint and facts.n_labels > 1 and self.target_ == "labels":
            say("which labels go together")
            self.gate_ = _gate_form(facts)
            gates = self._gates(None if self.gate_ is None else shop.forms.learn(self.gate_, table), found.left_out)
            self.law_ = JointLaw.learn(
                found.left_out,
                gates,
                labels,
                held=folds.of_row,
                graph=self._label_graph(labels),
                training=self._training(),
                seed=seed,
                effort=work.law_effort,
            )
            self.recipe_.together = _law_line(self.law_)
            say(self.recipe_.together)
            kept += [] if self.gate_ is None else [self.gate_]
        self.trust_: Trust | None = learn_trust(
            table,
            found.left_out,
            labels if self.target_ == "labels" else None,
            folds.of_row,
            folds.blocks,
            seed,
            _names_of(plan, table),
        )
        self.forms_.forget_tables(kept)
        self.left_out_: NDArray[np.float64] | None = expit(found.left_out)

    def _tune_thresholds(self, train: Rows, held: Rows | None) -> dict[str, float]:
        if held is not None:
            return super()._tune_thresholds(train, held)
        return tune_thresholds(train.observed(), np.asarray(self.left_out_))

    # Predicting -------------------------------------------------------------------------------------------

    def _probs(self, features: Any) -> NDArray[np.floating[Any]]:
        if self.single_ is not None:
            return self.single_._probs(features)
        probs: NDArray[np.floating[Any]] = expit(self._logits(features)).astype(np.float32)
        return probs

    def _logits(self, features: Any) -> NDArray[np.float64]:
        """Return stacked logits of rows as the column plan makes them."""
        if features.shape[0] == 0:
            return np.zeros((0, self.n_labels_))
        forms: dict[str, Any] = {}
        for candidate, _ in self.members_:
            if candidate.form not in forms:
                forms[candidate.form] = self.forms_.makers[candidate.form].transform(features)
        return self.stack_.logits([mean_logits(members, forms[c.form]) for c, members in self.members_])

    # Labels together --------------------------------------------------------------------------------------

    def _label_graph(self, labels: NDArray[Any]) -> NDArray[np.bool_] | None:
        if isinstance(self.graph, str):
            require_choice("graph", self.graph, ("complete", "cooccurrence"))
            return None if self.graph == "complete" else cooccurrence_graph(labels)
        return check_graph(np.asarray(self.graph), self.n_labels_)

    def _gates(self, form: Any, logits: NDArray[np.float64]) -> NDArray[Any]:
        """Return what may change how labels speak to each other: features, or what these say of the labels."""
        return expit(logits) if form is None else np.asarray(form)

    def _base(self, features: Any) -> tuple[NDArray[np.float64], NDArray[Any]]:
        """Return stacked logits of rows, and what changes the edges between labels."""
        logits = self._logits(features)
        form = None if self.gate_ is None else self.forms_.makers[self.gate_].transform(features)
        return logits, self._gates(form, logits)

    @property
    def conditional(self) -> bool:  # type: ignore[override]  # others know it before they are fitted
        """Whether known labels can be given for a prediction of the others."""
        single = getattr(self, "single_", None)
        return bool(single.conditional) if single is not None else self.joint

    def log_likelihood(self, X: Any, y: Any, n_orders: int = 4) -> NDArray[np.float64]:
        """Log likelihood of whole label sets: of each label given those before it, over a few random orders.

        Parameters
        ----------
        X : array, sparse matrix or DataFrame of shape (n_samples, n_features)
            Features, columns as in training.
        y : array or DataFrame of shape (n_samples, n_labels)
            0, 1, or NaN for labels that are left out.
        n_orders : int
            Orders of the labels; the likelihood is the mean over them.

        Returns
        -------
        ndarray of shape (n_samples,)
            In nats; higher is better.
        """
        check_is_fitted(self)
        require_count("n_orders", n_orders)
        self._require_label_table("log_likelihood")
        if self.single_ is not None:
            raise ConfigError(
                f"log_likelihood must go with recipe 'auto'; got {self.recipe!r}, which has no joint law. Train anew."
            )
        features = self._read(X)
        labels = self._check_labels(y, reset=False)
        if self.law_ is not None:
            return self.law_.log_likelihood(*self._base(features), labels, n_orders)
        odds = self._logits(features)
        likelihood: NDArray[np.float64] = np.nansum(labels * odds - np.logaddexp(0, odds), axis=1)
        return likelihood

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

    # Parts ------------------------------------------------------------------------------------------------

    def alone(self, kinds: Sequence[str]) -> HotVAEClassifier:
        """Return a model of some members without the others, to see what each is worth.

        Nothing is trained anew but the stack, on the rows held out.

        Parameters
        ----------
        kinds : sequence of {"trees", "ridge", "network", "own"}
            Kinds of members that stay; ``"own"`` is a classifier that was given as ``base``.

        Returns
        -------
        HotVAEClassifier
            Shares its members with this one, which stays as it is.

        Raises
        ------
        ConfigError
            A model without such members.
        ModelError
            A model that was read from a file: rows held out are not kept there.

        Examples
        --------
        >>> X = np.linspace(-1, 1, 200)[:, None]
        >>> Y = np.column_stack([X[:, 0] > 0, X[:, 0] < 0.5])
        >>> model = HotVAEClassifier(effort="quick", random_state=0).fit(X, Y)
        >>> kind = model.members_[0][0].kind
        >>> {candidate.kind for candidate, _ in model.alone([kind]).members_} == {kind}
        True
        """
        members = [] if self.single_ is not None else self.members_
        kept = [i for i, (candidate, _) in enumerate(members) if candidate.kind in kinds]
        if not kept:
            there = sorted({candidate.kind for candidate, _ in members})
            raise ConfigError(
                f"kinds must name members of the model ({listed(there) or 'none'}); got {listed(list(kinds))}. "
                "Choose among them."
            )
        if self.member_logits_ is None:
            raise ModelError(
                "model must have been fitted here to be taken apart; got one read from a file. Fit it anew."
            )
        part = copy(self)
        part.law_ = None  # what labels say of each other was learned on all members together
        part.trust_ = None  # and so was what held-out rows say of trust
        part.members_ = [members[i] for i in kept]
        part.member_logits_ = [self.member_logits_[i] for i in kept]
        part.stack_ = fit_stack(part.member_logits_, self._learned_from)
        logits = part.stack_.logits(part.member_logits_)
        part.left_out_ = expit(logits)
        weights = {
            candidate.name: float(w) for (candidate, _), w in zip(part.members_, part.stack_.weights, strict=True)
        }
        part.recipe_ = replace(
            self.recipe_,
            entries=[replace(entry, weight=weights.get(entry.name, 0.0)) for entry in self.recipe_.entries],
            log_loss=logit_loss(self._learned_from, logits),
        )
        part.thresholds_ = tune_thresholds(self._learned_from, part.left_out_)
        return part

    # The network alone ------------------------------------------------------------------------------------

    def _fit_single(self, X: Any, y: Any, validation: Any) -> Self:
        """Train the network alone, and speak for it."""
        kind = _what_rows_are(X) if self.rows == "auto" else self.rows
        own: dict[str, Any] = {"encoder": _OF_COLUMN[kind]} if kind in _OF_COLUMN else {}
        if self.recipe == "paper":
            single = HotVAENetwork.from_recipe("paper", **own)
        else:
            single = HotVAENetwork(**own) if self.network is None else clone(self.network)
        where = {name: getattr(self, name) for name in ("device", "n_threads", "progress", "state_file")}
        single.change_settings(**where, random_state=self.random_state)
        single.fit(X, y, validation)
        for name in _SHARED:
            if hasattr(single, name):
                setattr(self, name, getattr(single, name))
        self.rows_, self.single_, self.left_out_, self.member_logits_ = kind, single, None, None
        self.trust_ = None
        return self

    def _read(self, X: Any) -> Any:
        return super()._read(X) if self.single_ is None else self.single_._read(X)

    def _probs_given(self, features: Any, given: NDArray[np.float32]) -> NDArray[np.floating[Any]]:
        if self.single_ is not None:
            return self.single_._probs_given(features, given)
        if self.law_ is None:
            raise ConfigError(
                f"given must go with a model that has learned which labels go together; got joint={self.joint} with "
                f"{self.n_labels_} labels. Train it anew with joint=True on a table of labels."
            )
        logits, gates = self._base(features)
        probs: NDArray[np.floating[Any]] = expit(self.law_.logits(logits, gates, given)).astype(np.float32)
        return probs

    def _draw_blocks(
        self, features: Any, given: NDArray[np.float32] | None, sizes: list[int], random: np.random.Generator
    ) -> Iterator[NDArray[np.int8]]:
        if self.single_ is not None:
            blocks: Iterator[NDArray[np.int8]] = self.single_._draw_blocks(features, given, sizes, random)
            return blocks
        if self.law_ is None:
            return super()._draw_blocks(features, given, sizes, random)
        logits, gates = self._base(features)
        law = self.law_
        return (law.sample(logits, gates, size, random, given) for size in sizes)

    # Saving -----------------------------------------------------------------------------------------------

    def _plain_parameters(self) -> dict[str, Any]:
        own = {"network": None, "base": self.base if isinstance(self.base, str) else None}
        return super()._plain_parameters() | own | {"state_file": None}

    def _learned(self) -> tuple[dict[str, Any], dict[str, Tensor]]:
        if self.single_ is not None:
            notes, tensors = self.single_._learned()
            return notes | {"rows": self.rows_, "single": self.single_._plain_parameters()}, tensors
        tensors = {}
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
        self.single_, self.rows_ = None, config["rows"]
        self.left_out_, self.member_logits_, self.trust_ = None, None, None
        if "single" in config:
            self.single_ = HotVAENetwork._from_plain(restored_parameter(config["single"]))
            for name in _SHARED:
                if hasattr(self, name):
                    setattr(self.single_, name, getattr(self, name))
            self.single_._restore(config, tensors)
            return
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


# What a fitted classifier knows of its tables, whoever has learned it.
_SHARED = (
    "target_",
    "n_labels_",
    "label_names_",
    "labels_are_named_",
    "classes_",
    "n_features_in_",
    "feature_names_in_",
    "features_",
    "thresholds_",
)
_COLUMN_LINE = {"text": "1 column of texts, as weighted words", "molecules": "1 column of molecules, as their elements"}


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


def _law_line(law: JointLaw) -> str:
    """Say in a line what was learned of labels together."""
    if law.messages is None:
        return "labels together: messages do not help on rows held out; labels are independent"
    chosen = next(score for score in reversed(law.scores) if score.get("chosen"))
    return (
        f"labels together: {law.messages.config.n_rounds} rounds of messages; joint log likelihood per label "
        f"{-chosen['nll']:.4f} on rows held out, {-chosen['independent']:.4f} if labels were independent"
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


def _what_rows_are(X: Any) -> RowsAre:
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
