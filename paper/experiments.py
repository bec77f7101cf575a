"""What is measured: experiments, and the cells they are made of.

A cell is one fit: a model with its settings, on one split of one data set, with one seed. Nothing here knows torch.
"""

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from hotvae.errors import ConfigError, listed

ALL_MODELS = (
    *("hotvae", "hotvae_network", "plain", "mpvae", "lamp", "seq2seq", "c2ae", "probit", "mlknn", "sleec", "ridge"),
    *("kernel_ridge", "logistic", "chain", "chain_ensemble", "random_forest", "extra_trees", "boosting", "prevalence"),
)
NEURAL = ("hotvae", "hotvae_network", "hotvae-paper", "plain", "mpvae", "lamp", "seq2seq", "c2ae", "probit")
# Cheap sets first: what can be shown early is shown early.
TABLE_SETS = ("yeast", "scene", "sider", "bibtex", "mirflickr_tags", "reuters", "bbs_like_ebird100")
NORBERG = ("birds", "butterfly", "plant", "trees", "vegetation")

# Sets whose every part is published: a model without chance in it gives the same answer for every seed.
_FIXED_SPLITS = ("mirflickr_tags", "bbs_like_ebird100", "breeding_birds_2009", "ebird_roccupy_june2019")
# Sets whose test rows are drawn with the seed: models with fewer seeds would be compared on other rows.
_DRAWN_TEST_ROWS = ("bbs_clark2003_2009",)
_NO_CHANCE = ("mlknn", "ridge", "kernel_ridge", "logistic", "prevalence")

TUNED = Path(__file__).with_name("tuned")
"""Settings that a search chose: ``DATA.MODEL.toml``. What one chose for HOT-VAE's network is the preset of the set."""


PARTS: dict[str, tuple[str, ...]] = {"base": ("trees", "ridge", "own"), "network": ("network",), "forest": ("trees",)}
"""Rows that one fit of HOT-VAE gives beside its own: members of these kinds, stacked without the others."""

PAPER_MODEL = "hotvae-paper"
"""The paper's recipe (`hotvae.config.RECIPES`), with what ``python -m paper.reproduce`` chose from its grid."""

REPRODUCED = "reproduce"
"""Where the fits of ``python -m paper.reproduce`` are kept: tables take their row of the paper's recipe from there."""


@dataclass(frozen=True)
class Cell:
    """One fit and how it is measured.

    Attributes
    ----------
    experiment, variant : str
        Where it belongs, and its row or column there.
    model : str
        Short name of a model, or of a variant that is no setting (see :mod:`paper.cells`).
    data : str
        Named set of the catalogue, or ``virtual-SITES-SPECIES``, with ``-x2`` for interactions twice as strong.
    split, seed : int
        Which of the published splits, and the seed of the model and of rows that are drawn.
    settings : dict
        Parameters that this cell changes; presets come below them.
    measures : tuple of str
        Beyond measures of labels: ``"ecology"``.
    n_draws, n_pairs : int
        Communities and pairs of sites, for ecology.

    Examples
    --------
    >>> cell = Cell("tables", "mpvae", "mpvae", "yeast", seed=1)
    >>> cell.place
    ('tables', 'mpvae', 'yeast', 0, 1)
    >>> cell == Cell.from_dict(cell.to_dict())
    True
    """

    experiment: str
    variant: str
    model: str
    data: str
    split: int = 0
    seed: int = 0
    settings: Mapping[str, Any] = field(default_factory=dict)
    measures: tuple[str, ...] = ("multilabel",)
    n_draws: int = 100
    n_pairs: int = 300

    @property
    def place(self) -> tuple[str, str, str, int, int]:
        """Where its numbers stand: experiment, variant, data, split, seed."""
        return (self.experiment, self.variant, self.data, self.split, self.seed)

    @property
    def words(self) -> tuple[str, ...]:
        """What ``--only`` is compared with."""
        return (
            *(self.experiment, self.variant, self.model, self.data),
            *(f"split={self.split}", f"seed={self.seed}"),
        )

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return asdict(self) | {"measures": list(self.measures), "settings": dict(self.settings)}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> "Cell":
        """Build a cell from :meth:`to_dict`'s values."""
        return cls(**{**values, "measures": tuple(values["measures"])})


@dataclass(frozen=True)
class Variant:
    """A row of an experiment: a model and what is changed about it.

    Attributes
    ----------
    name, model : str
        What it is called, and which model it is.
    settings : dict
        What is changed.
    title : str
        Its name on the page; empty for the title of the model.
    data : tuple of str
        Sets it is restricted to; empty for all.
    of : str
        Which part of the first variant it is (a key of :data:`PARTS`); such a row is measured with that one's fit and
        has no cells of its own.
    """

    name: str
    model: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    title: str = ""
    data: tuple[str, ...] = ()
    of: str = ""


@dataclass(frozen=True)
class Experiment:
    """A table or a figure.

    Attributes
    ----------
    name, title : str
        Its name on the command line and on the page.
    variants : tuple of Variant
        Its models; the first is the one that rivals are compared with.
    data : tuple of (str, int)
        Sets and splits.
    seeds : dict of str to int
        Seeds of each set; ``""`` for all others.
    measures : tuple of str
        As in :class:`Cell`.
    """

    name: str
    title: str
    variants: tuple[Variant, ...]
    data: tuple[tuple[str, int], ...]
    seeds: Mapping[str, int]
    measures: tuple[str, ...] = ("multilabel",)

    def cells(self, smoke: bool = False) -> list[Cell]:
        """List the cells in the order they should run: all rivals with one seed before the next seed.

        Parameters
        ----------
        smoke : bool
            A version of seconds: a tiny virtual region in the place of every set, one seed, one epoch.

        Returns
        -------
        list of Cell
        """
        if smoke:
            tiny = ((SMOKE_SET, 0),)
            return [_smoke(cell) for cell in replace(self, data=tiny, seeds={"": 1}).cells()]
        n_seeds = max(self.seeds.values())
        return [
            Cell(self.name, variant.name, variant.model, data, split, seed, variant.settings, self.measures)
            for seed in range(n_seeds)
            for data, split in self.data
            for variant in self.variants
            if seed < self.n_seeds(data, variant) and (not variant.data or data in variant.data) and not variant.of
        ]

    def n_seeds(self, data: str, variant: Variant) -> int:
        """Say how many seeds a variant has on a set: fewer where chance has little or no part."""
        n_seeds = self.seeds.get(data, self.seeds[""])
        if data in _FIXED_SPLITS and variant.model in _NO_CHANCE:
            return 1
        fixed = data not in (SMOKE_SET, *_DRAWN_TEST_ROWS)
        if "ecology" in self.measures and variant.model not in NEURAL and fixed:
            return 1  # trees and regressions hardly differ from seed to seed; networks do
        return n_seeds


SMOKE_SET = "virtual-80-6"
_SMOKE_SETTINGS = {
    "effort": "quick",
    "max_epochs": 1,
    "encoder_widths": [8],
    "label_encoder_widths": [8],
    "decoder_widths": [8],
    "dim": 8,
    "decoder_dim": 8,
    "n_heads": 2,
    "covariance_epochs": 1,
    "n_trees": 4,
    "max_rounds": 2,
    "n_chains": 2,
    "n_iterations": 1,
}


def _smoke(cell: Cell) -> Cell:
    # A variant's own settings win over these, but for how long it trains.
    own = {name: value for name, value in cell.settings.items() if name != "max_epochs"}
    return replace(cell, settings={**own, "smoke": _SMOKE_SETTINGS}, n_draws=5, n_pairs=10)


def _models(names: Iterable[str]) -> tuple[Variant, ...]:
    return tuple(Variant(name, name) for name in names)


def _splits(names: Sequence[str], n_splits: int = 1) -> tuple[tuple[str, int], ...]:
    return tuple((name, split) for name in names for split in range(n_splits))


# HOT-VAE as it comes, the paper's, and what it is made of.
HOTVAE_ROWS = (
    Variant("hotvae", "hotvae"),
    Variant("paper", PAPER_MODEL),
    Variant("base alone", "hotvae", title="base alone (trees and ridge)", of="base"),
    Variant("network alone", "hotvae", title="network alone", of="network"),
    Variant("forest alone", "hotvae", title="forest alone", of="forest"),
)
"""Rows of HOT-VAE in every table."""

_COMMUNITY_MODELS = ("plain", "probit", "mpvae", "extra_trees", "random_forest", "logistic", "prevalence")

EXPERIMENTS: dict[str, Experiment] = {
    experiment.name: experiment
    for experiment in (
        Experiment(
            "tables",
            "F1 scores and Hamming accuracy",
            (*HOTVAE_ROWS, *_models(name for name in ALL_MODELS if not name.startswith("hotvae"))),
            _splits(TABLE_SETS),
            {"yeast": 5, "scene": 5, "": 3},
        ),
        Experiment(
            "communities",
            "Species communities",
            (*HOTVAE_ROWS, *_models(_COMMUNITY_MODELS)),
            (
                *_splits(tuple(f"norberg_{taxon}" for taxon in NORBERG), 3),
                *_splits(("bbs2011_wilkinson", "bbs_like_ebird100", "bbs_clark2003_2009")),
            ),
            {"": 3},
            ("multilabel", "ecology"),
        ),
    )
}
"""All experiments by name."""

ALIASES = {"table-f1": "tables", "table-ha": "tables", "table-ecology": "communities"}
"""The paper's tables that share an experiment with another."""


def find_experiments(names: Sequence[str]) -> list[Experiment]:
    """Look experiments up by name.

    Parameters
    ----------
    names : sequence of str
        Keys of :data:`EXPERIMENTS` or :data:`ALIASES`; ``"all"`` for all.

    Returns
    -------
    list of Experiment
        Each once.

    Raises
    ------
    ConfigError
        Any other name; close ones are suggested.

    Examples
    --------
    >>> [experiment.name for experiment in find_experiments(["table-f1", "tables", "communities"])]
    ['tables', 'communities']
    """
    found: dict[str, Experiment] = {}
    known = [*EXPERIMENTS, *ALIASES, "all"]
    for name in names:
        if name == "all":
            found |= EXPERIMENTS
            continue
        if name not in known:
            close = get_close_matches(name, known, n=1)
            hint = f"Did you mean {close[0]!r}?" if close else "Choose one of them."
            raise ConfigError(f"experiment must be one of {listed(known, len(known))}; got {name!r}. {hint}")
        own = ALIASES.get(name, name)
        found[own] = EXPERIMENTS[own]
    return list(found.values())


def select(cells: Iterable[Cell], only: Sequence[str]) -> list[Cell]:
    """Keep the cells that every word fits, where a word with alternatives in one field fits any of them.

    Parameters
    ----------
    cells : iterable of Cell
        All cells.
    only : sequence of str
        Words such as ``yeast``, ``mpvae``, ``seed=0`` or ``split=2``; words for the same field are alternatives.

    Returns
    -------
    list of Cell

    Raises
    ------
    ConfigError
        A word that no cell has.

    Examples
    --------
    >>> cells = EXPERIMENTS["tables"].cells()
    >>> [cell.place[1:3] for cell in select(cells, ["yeast", "mpvae", "lamp", "seed=0"])]
    [('mpvae', 'yeast'), ('lamp', 'yeast')]
    """
    everything = list(cells)
    fields: dict[int, set[str]] = {}
    for word in only:
        places = {place for cell in everything for place, own in enumerate(cell.words) if own == word}
        if not places:
            names = sorted({own for cell in everything for own in cell.words})
            close = get_close_matches(word, names, n=3)
            hint = f"Did you mean {listed(close)}?" if close else f"Known are {listed(names, 40)}."
            raise ConfigError(f"--only must name a model, set, variant, split=N or seed=N; got {word!r}. {hint}")
        # A variant that is called as its model stands in two fields; the wider one is meant.
        fields.setdefault(max(places), set()).add(word)
    return [cell for cell in everything if all(cell.words[place] in words for place, words in fields.items())]


def searched_sets() -> tuple[str, ...]:
    """Name the sets on which settings of all models were searched for by machine.

    Returns
    -------
    tuple of str
        Sets with a file in :data:`TUNED`; what was chosen from the paper's own grid does not count.

    Examples
    --------
    >>> "virtual-3000-24" in searched_sets()
    False
    """
    files = [path for path in TUNED.glob("*.toml") if not path.name.endswith(f".{PAPER_MODEL}.toml")]
    return tuple(sorted({path.name.partition(".")[0] for path in files}))


def fingerprint(values: Any) -> str:
    """Short checksum of plain values, whatever the order of their keys.

    Parameters
    ----------
    values : JSON-able
        What is to be recognised.

    Returns
    -------
    str
        16 hexadecimal digits.

    Examples
    --------
    >>> fingerprint({"a": 1, "b": [2]}) == fingerprint({"b": [2], "a": 1})
    True
    """
    return hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()[:16]
