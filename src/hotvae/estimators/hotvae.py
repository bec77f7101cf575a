"""HOT-VAE as most people use it: it looks at the columns, finds its own recipe, and learns which labels go together."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit
from sklearn.base import clone, is_classifier
from torch import Tensor

from hotvae.config import require_choice
from hotvae.errors import ConfigError, ModelError, listed
from hotvae.estimators.base import restored_parameter
from hotvae.estimators.folds import Held
from hotvae.estimators.hotvae_network import HotVAENetwork
from hotvae.estimators.members import Candidate
from hotvae.estimators.recipe import Effort, Facts, Outcome, Plan, Workshop, candidates_for, follow_recipe, plan_for
from hotvae.estimators.stack import fit_stack, logit_loss
from hotvae.estimators.stacked import OF_COLUMN, RowsAre, StackedClassifier
from hotvae.estimators.thresholds import tune_thresholds
from hotvae.training.progress import Style

RecipeName = Literal["auto", "network", "paper"]


@dataclass(kw_only=True, eq=False, repr=False)
class HotVAEClassifier(StackedClassifier):
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
        The same of each member by itself, as logits before stacking, validation rows behind them; not kept in files.
    out_of_fold_ : OutOfFold or None
        All that the law was learned from; not kept in files.
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
    cost: ClassVar[str] = "seconds to minutes"
    citation: ClassVar[str] = HotVAENetwork.citation

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

    def _fit_tables(self, X: Any, y: Any, validation: Any) -> Self:
        """Find a recipe and train by it, or train the network alone."""
        self.single_: HotVAENetwork | None = None
        return super()._fit_tables(X, y, validation) if self.recipe == "auto" else self._fit_single(X, y, validation)

    def check_parameters(self) -> None:
        """Find a parameter that is not allowed before any data are read."""
        require_choice("recipe", self.recipe, ("auto", "network", "paper"))
        plan_for(100, 1, 1, self.effort)
        super().check_parameters()
        is_ours = self.base is None or (isinstance(self.base, str) and self.base == "auto")
        if not (is_ours or (hasattr(self.base, "predict_proba") and is_classifier(self.base))):
            raise ConfigError(
                f"base must be 'auto', None or a scikit-learn classifier; got {self.base!r}. Choose one of them."
            )
        if self.network is not None and self.recipe != "network":
            raise ConfigError(f"network must go with recipe 'network'; got recipe {self.recipe!r}. Leave one out.")

    def _plan(self, facts: Facts) -> Plan:
        return plan_for(facts.n_rows, facts.n_columns, facts.n_labels, self.effort)

    def _stacked(self, shop: Workshop, facts: Facts) -> Outcome:
        candidates = candidates_for(facts, shop.work)
        if self.base is None:
            candidates = [candidate for candidate in candidates if candidate.kind == "network"]
        elif self.base != "auto":
            own = Candidate(type(self.base).__name__, "own", "values")
            candidates = [own, *(candidate for candidate in candidates if candidate.kind == "network")]
        return follow_recipe(shop, candidates)

    def _own_model(self) -> Any:
        return None if isinstance(self.base, str) else self.base

    def _scratch(self) -> Path | None:
        return None if self.state_file is None else Path(self.state_file)

    def _wants_law(self) -> bool:
        return self.joint and self.recipe == "auto"

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
        part.out_of_fold_ = None
        part.law_ = None  # what labels say of each other was learned on all members together
        part.trust_ = None  # and so was what held-out rows say of trust
        part.members_ = [members[i] for i in kept]
        part.member_logits_ = [self.member_logits_[i] for i in kept]
        part.stack_ = fit_stack(part.member_logits_, self._learned_from)
        logits = part.stack_.logits(part.member_logits_)
        probs = expit(logits)
        part.left_out_ = probs[: len(np.asarray(self.left_out_))]
        weights = {
            candidate.name: float(w) for (candidate, _), w in zip(part.members_, part.stack_.weights, strict=True)
        }
        part.recipe_ = replace(
            self.recipe_,
            entries=[replace(entry, weight=weights.get(entry.name, 0.0)) for entry in self.recipe_.entries],
            log_loss=logit_loss(self._learned_from, logits),
        )
        part.thresholds_ = tune_thresholds(self._learned_from, probs)
        return part

    # The network alone ------------------------------------------------------------------------------------

    def _fit_single(self, X: Any, y: Any, validation: Any) -> Self:
        """Train the network alone, and speak for it."""
        own: dict[str, Any] = {"encoder": OF_COLUMN[self.rows_]} if self.rows_ in OF_COLUMN else {}
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
        self.single_, self.law_, self.left_out_, self.member_logits_, self.trust_ = single, None, None, None, None
        return self

    def _read(self, X: Any) -> Any:
        return super()._read(X) if self.single_ is None else self.single_._read(X)

    def _probs(self, features: Any) -> NDArray[np.floating[Any]]:
        return super()._probs(features) if self.single_ is None else self.single_._probs(features)

    def _log_likelihood(self, features: Any, labels: NDArray[np.float32], n_orders: int) -> NDArray[np.float64]:
        if self.single_ is None:
            return super()._log_likelihood(features, labels, n_orders)
        return self.single_._log_likelihood(features, labels, n_orders)

    def _probs_given(self, features: Any, given: NDArray[np.float32]) -> NDArray[np.floating[Any]]:
        if self.single_ is None:
            return super()._probs_given(features, given)
        return self.single_._probs_given(features, given)

    # Saving -----------------------------------------------------------------------------------------------

    def _plain_parameters(self) -> dict[str, Any]:
        own = {"network": None, "base": self.base if isinstance(self.base, str) else None}
        return super()._plain_parameters() | own | {"state_file": None}

    def _learned(self) -> tuple[dict[str, Any], dict[str, Tensor]]:
        if self.single_ is not None:
            notes, tensors = self.single_._learned()
            return notes | {"rows": self.rows_, "single": self.single_._plain_parameters()}, tensors
        return super()._learned()

    def _restore(self, config: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> None:
        self.single_ = None
        if "single" in config:
            self.rows_, self.law_, self.left_out_, self.member_logits_, self.trust_ = (
                config["rows"],
                None,
                None,
                None,
                None,
            )
            self.single_ = HotVAENetwork._from_plain(restored_parameter(config["single"]))
            for name in _SHARED:
                if hasattr(self, name):
                    setattr(self.single_, name, getattr(self, name))
            self.single_._restore(config, tensors)
            return
        super()._restore(config, tensors)


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
