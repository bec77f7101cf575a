"""Settings that were tuned by hand for single sets: how rivals read rows there, and the shapes of their perceptrons.

They were HOT-VAE's own before it found its recipe itself; rivals keep them, so that their stored results stay valid.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from hotvae.jobs.settings import ALIASES, read_settings

PRESETS = Path(__file__).with_name("presets")
"""One file for each set that has settings: ``DATA.toml``."""

COORDINATES = "coordinates_as_features"
"""Of the rows and not of a model: whether the two coordinates are features."""

PRESET_OF = {f"norberg_{taxon}": "norberg_birds" for taxon in ("plant", "trees", "vegetation")} | {
    "breeding_birds_2009": "bbs2011_wilkinson",
    "ebird_roccupy_june2019": "bbs_like_ebird100",
    "eucalypts_grampians": "norberg_birds",
}
"""Sets without a preset of their own, and one that they resemble and that has.

HOT-VAE sees coordinates wherever a set has them. So must its rivals: each set that has some needs a preset or a line
here."""


def read_preset(name: str, known: Iterable[str]) -> dict[str, Any]:
    """Read the preset of a set.

    Parameters
    ----------
    name : str
        A set of the catalogue.
    known : iterable of str
        Parameters of the model; settings it does not have are left out, as a preset serves every model.

    Returns
    -------
    dict
        By the names of parameters, and :data:`COORDINATES`; empty where a set has no preset.

    Examples
    --------
    >>> read_preset("bbs_like_ebird100", ["encoder_dropout"])
    {'coordinates_as_features': True, 'encoder_dropout': 0.3}
    >>> read_preset("emotions", ["encoder_dropout"])
    {}
    """
    path = PRESETS / f"{name}.toml"
    if not path.is_file():
        return {}
    allowed = {*known, COORDINATES}
    return {given: value for given, value in read_settings(path).items() if ALIASES.get(given, given) in allowed}
