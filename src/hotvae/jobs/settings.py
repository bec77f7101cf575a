"""Settings of a training run: a TOML or YAML file, ``key=value`` pairs and options, joined into one.

Nothing here knows torch: the parameters of the classifier come in as a mapping of name to default.
"""

import ast
import tomllib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from hotvae.config import find_recipe
from hotvae.errors import ConfigError, listed, shown

# Short names of the command line for parameters of the classifier.
ALIASES = {"seed": "random_state", "epochs": "max_epochs", "layers": "n_layers", "threads": "n_threads"}

# Parameters that the command line keeps for itself: --quiet, --resume, --recipe and --split are the words for them.
_RESERVED = ("progress", "state_file", "network", "rows", "hold_out")


@dataclass(frozen=True)
class TrainSettings:
    """What ``hotvae train`` was told, from all sources.

    Attributes
    ----------
    out : str or None
        Folder of the model.
    labels, drop : tuple of str
        Names or globs of columns, ranges, or files of names.
    label_table, id_column, coordinates, groups, long, sites, sheet : str or None
        As in :func:`hotvae.data.tables.read_table`.
    join : str
        As in :func:`hotvae.data.tables.read_table`.
    presence : bool
        As in :func:`hotvae.data.tables.read_table`. Coordinates are features as well.
    encoding, decimal : str
        Of text files.
    drop_single_class : bool
        Leave out labels with one class among the training rows, instead of stopping.
    validation : str or None
        Table of validation rows.
    split : str
        How validation rows are chosen: auto, random, stratified, group or block. Auto takes groups where a column of
        them is named, else blocks where there are coordinates, else single rows.
    block_size : float or None
        Side of the blocks.
    graph : str
        complete, cooccurrence, or the path of an edge list or tree.
    neighbours : int or None
        Nearest relatives to connect when the graph is a tree.
    max_distance : float or None
        Instead, connect labels up to this distance.
    model : str
        Short name of a model (``hotvae models``).
    recipe : str
        Of HOT-VAE: auto, which finds its own; network, for settings of one's own; or paper, as printed.
    data : str or None
        Named set of the catalogue, instead of a table.
    fold : int
        Which of the published splits of that set, from 0.
    stream : bool
        Read a Parquet table a piece at a time, not as a whole.
    sample : int or None
        Of such a table, about how many rows decide everything but the weights of networks; None takes what fits.
    resume, force, quiet, json : bool
        How to run, whether another model may be replaced, and what to print.
    parameters : dict
        Parameters of the classifier by their own names.
    """

    out: str | None = None
    labels: tuple[str, ...] = ()
    label_table: str | None = None
    id_column: str | None = None
    coordinates: str | None = None
    groups: str | None = None
    drop: tuple[str, ...] = ()
    presence: bool = False
    long: str | None = None
    sites: str | None = None
    join: str = "exact"
    sheet: str | None = None
    encoding: str = "utf-8"
    decimal: str = "."
    drop_single_class: bool = False
    validation: str | None = None
    split: str = "auto"
    block_size: float | None = None
    graph: str = "complete"
    neighbours: int | None = None
    max_distance: float | None = None
    model: str = "hotvae"
    recipe: str = "auto"
    data: str | None = None
    fold: int = 0
    stream: bool = False
    sample: int | None = None
    resume: bool = True
    force: bool = False
    quiet: bool = False
    json: bool = False
    parameters: dict[str, Any] = field(default_factory=dict)


OPTIONS = tuple(entry.name for entry in fields(TrainSettings) if entry.name != "parameters")
"""Names of the options that are not parameters of the classifier."""

_CHOICES = {
    "join": ("exact", "inner"),
    "split": ("auto", "random", "stratified", "group", "block"),
    "recipe": ("auto", "network", "paper"),
}


def read_settings(path: str | Path) -> dict[str, Any]:
    r"""Read a settings file.

    Parameters
    ----------
    path : path
        ``.toml``, ``.yaml`` or ``.yml``: names and values, without sections.

    Returns
    -------
    dict
        As in the file, with ``-`` in names read as ``_``.

    Raises
    ------
    ConfigError
        A file that is missing, of another kind or not well formed.
    """
    source = Path(path)
    suffix = source.suffix.lower()
    if suffix not in (".toml", ".yaml", ".yml"):
        raise ConfigError(f"config must end in .toml, .yaml or .yml; got {source.name!r}. Rename the file.")
    try:
        text = source.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or error
        raise ConfigError(
            f"config must be a readable UTF-8 file; got {str(source)!r} ({reason}). Check the path."
        ) from error
    values = _parse_toml(text, source) if suffix == ".toml" else _parse_yaml(text, source)
    if not isinstance(values, dict):
        raise ConfigError(
            f"config must hold names and values; got {type(values).__name__} ({source.name}). "
            "Write one 'name: value' per line."
        )
    return {str(name).replace("-", "_"): value for name, value in values.items()}


def _parse_toml(text: str, source: Path) -> Any:
    try:
        return tomllib.loads(text)
    except (tomllib.TOMLDecodeError, ValueError, RecursionError) as error:
        raise _malformed("TOML", source, error) from error


def _parse_yaml(text: str, source: Path) -> Any:
    import yaml  # here, so that `hotvae --help` need not wait for it

    class Unique(yaml.SafeLoader):
        """Refuses a name that stands twice, of which the last would win."""

        def construct_mapping(self, node: Any, deep: bool = False) -> dict[Any, Any]:
            found: dict[Any, Any] = super().construct_mapping(node, deep)
            names = [key.value for key, _ in node.value]
            if len(found) < len(names):
                twice = listed(sorted({str(name) for name in names if names.count(name) > 1}))
                raise yaml.YAMLError(f"{twice} more than once")
            return found

    try:
        return yaml.load(text, Unique) or {}  # a safe loader
    except (yaml.YAMLError, ValueError, TypeError, RecursionError, MemoryError) as error:
        raise _malformed("YAML", source, error) from error


def _malformed(kind: str, source: Path, error: Exception) -> ConfigError:
    reason = " ".join(str(error).split())[:300]
    return ConfigError(f"config must be well-formed {kind}; got {reason} ({source.name}). Correct this line.")


def parse_value(text: str) -> Any:
    """Read a value as typed on a command line; what is no number, list or word is text.

    Parameters
    ----------
    text : str
        Such as ``0.1``, ``[64, 64]``, ``true``, ``none`` or ``macro_f1``.

    Returns
    -------
    value

    Examples
    --------
    >>> [parse_value(text) for text in ("1e-4", "[64, 64]", "true", "None", "macro_f1")]
    [0.0001, [64, 64], True, None, 'macro_f1']
    """
    words = {"true": True, "false": False, "none": None, "null": None}
    if text.strip().lower() in words:
        return words[text.strip().lower()]
    try:
        return ast.literal_eval(text.strip())
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        return text


def parse_assignments(items: Iterable[str]) -> dict[str, Any]:
    """Read ``key=value`` pairs.

    Parameters
    ----------
    items : iterable of str
        Values of ``--set``.

    Returns
    -------
    dict

    Raises
    ------
    ConfigError
        An item without ``=``, or a key given twice.
    """
    values: dict[str, Any] = {}
    for item in items:
        name, equals, text = item.partition("=")
        name = name.strip().replace("-", "_")
        if not equals or not name:
            raise ConfigError(f"--set must be key=value; got {item!r}. Write, for example, --set dim=32.")
        if name in values:
            raise ConfigError(f"--set must name each key once; got {name!r} twice. Remove one.")
        values[name] = parse_value(text)
    return values


def join_settings(
    table: Path | None,
    options: Mapping[str, Any],
    assignments: Sequence[str],
    config: Path | None,
    *,
    default_recipe: str = "auto",
) -> TrainSettings:
    """Join recipe, settings file and options; each wins over those before it.

    Parameters
    ----------
    table : path or None
        None where a named data set is trained on.
    options : mapping of str to object
        Options of the command line that were given, by their names.
    assignments : sequence of str
        ``key=value`` pairs of ``--set``.
    config : path or None
        Settings file.
    default_recipe : str
        The recipe of HOT-VAE where none is named.

    Returns
    -------
    TrainSettings

    Raises
    ------
    ConfigError
        Settings that are unknown, of another type, set twice or that do not go together.
    """
    from_file = {} if config is None else read_settings(config)
    assigned = parse_assignments(assignments)
    both = sorted(set(options) & set(assigned))
    if both:
        raise ConfigError(f"options must be set once; got {listed(both)} also by --set. Remove one.")
    chosen = from_file | dict(options) | assigned
    if (table is None) == (chosen.get("data") is None):
        found = "none" if table is None else "both"
        raise ConfigError(f"data must be a TABLE or --data NAME; got {found}. Name one of them.")

    from hotvae.estimators.registry import find_classifier

    model = chosen.get("model", "hotvae")
    recipe = chosen.get("recipe", default_recipe if model == "hotvae" else "auto")
    if recipe != "auto" and model != "hotvae":
        raise ConfigError(
            f"recipe must go with model hotvae; got {shown(recipe)} with {shown(model)}. Leave out --recipe."
        )
    parameters = find_classifier(model_of_recipe(model, recipe)).all_settings()
    return train_settings(
        parameters,
        (f"recipe {recipe}", {"recipe": recipe, **find_recipe(recipe)}),
        ("" if config is None else config.name, from_file),
        ("command line", {**options, **assigned}),
    )


def model_of_recipe(model: str, recipe: str) -> str:
    """Return the short name of the model that a recipe of HOT-VAE trains.

    Examples
    --------
    >>> model_of_recipe("hotvae", "paper"), model_of_recipe("mpvae", "auto")
    ('hotvae_network', 'mpvae')
    """
    return "hotvae_network" if model == "hotvae" and recipe != "auto" else model


def train_settings(
    parameters: Mapping[str, Any],
    *layers: tuple[str, Mapping[str, Any]],
) -> TrainSettings:
    """Join settings from several places; later ones win.

    Parameters
    ----------
    parameters : mapping of str to object
        Parameters of the classifier and their defaults, which also tell their types.
    *layers : tuple of str and mapping
        Where the values come from, for messages, and the values by the names of options or parameters.

    Returns
    -------
    TrainSettings

    Raises
    ------
    ConfigError
        An unknown name (with close ones), the same setting under two names, or a value of another type.
    """
    known = [name for name in parameters if name not in _RESERVED and name not in OPTIONS]
    options: dict[str, Any] = {}
    chosen: dict[str, Any] = {}
    for where, values in layers:
        seen: dict[str, str] = {}
        for given, value in values.items():
            name = ALIASES.get(given, given)
            if name in seen:
                raise ConfigError(
                    f"{name} must be set once; got both {seen[name]!r} and {given!r} ({where}). Remove one."
                )
            seen[name] = given
            if name in OPTIONS:
                options[name] = _option(name, value, where)
            elif name in known:
                chosen[name] = _parameter(name, value, parameters[name], where, given)
            else:
                _refuse_network_setting(name, given, known, where)
                raise _unknown(given, [*OPTIONS, *(a for a in ALIASES if ALIASES[a] in known), *known], where)
    return TrainSettings(**options, parameters=chosen)


def _refuse_network_setting(name: str, given: str, known: Sequence[str], where: str) -> None:
    """Say where a setting belongs that the network has, but not what finds its own recipe."""
    from hotvae.estimators.registry import find_classifier

    if "effort" in known and name in find_classifier("hotvae_network").all_settings():
        raise ConfigError(
            f"{given} must go with a network of your own; got it where HOT-VAE finds its own recipe ({where}). Set "
            "recipe to network, or leave it out."
        )


def _unknown(given: str, names: list[str], where: str) -> ConfigError:
    close = get_close_matches(given, names, n=3)
    hint = f"Did you mean {listed(close)}?" if close else f"Known are {listed(sorted(names), len(names))}."
    return ConfigError(f"setting must be an option or a parameter; got {shown(given)} ({where}). {hint}")


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _are_counts(value: Any) -> bool:
    return isinstance(value, list | tuple) and all(_is_count(item) for item in value)


def _are_numbers(value: Any) -> bool:
    return isinstance(value, list | tuple) and all(_is_number(item) for item in value)


def _are_columns(value: Any) -> bool:
    return isinstance(value, list | tuple) and all(isinstance(item, str) or _is_count(item) for item in value)


_FLAG: tuple[str, Callable[[Any], bool]] = ("be true or false", lambda value: isinstance(value, bool))
_TEXT: tuple[str, Callable[[Any], bool]] = ("be text", lambda value: isinstance(value, str))
_COUNT: tuple[str, Callable[[Any], bool]] = ("be a whole number", _is_count)
_NUMBER: tuple[str, Callable[[Any], bool]] = ("be a number", _is_number)
_TEXT_OR_NUMBER: tuple[str, Callable[[Any], bool]] = (
    "be text or a number",
    lambda value: isinstance(value, str) or _is_number(value),
)
_COUNTS: tuple[str, Callable[[Any], bool]] = ("be a list of whole numbers such as [64, 64]", _are_counts)
_COLUMNS: tuple[str, Callable[[Any], bool]] = (
    "be two columns, as names such as lon,lat or as positions such as [0, 1]",
    _are_columns,
)
_NUMBERS: tuple[str, Callable[[Any], bool]] = ("be a list of numbers such as [0.1, 1.0]", _are_numbers)


def _check(name: str, value: Any, rule: tuple[str, Callable[[Any], bool]], where: str) -> None:
    if not rule[1](value):
        raise ConfigError(f"{name} must {rule[0]}; got {shown(value)} ({where}). Set {name} to such a value.")


def _option(name: str, value: Any, where: str) -> Any:
    """Check an option; lists of columns may also come as one text with commas."""
    if name in ("labels", "drop", "coordinates"):
        items = [value] if isinstance(value, str) else value
        if not isinstance(items, list | tuple) or not all(isinstance(item, str) for item in items):
            raise ConfigError(f"{name} must be text or a list of texts; got {shown(value)} ({where}). Name columns.")
        return ",".join(items) if name == "coordinates" else tuple(items)
    default = {entry.name: entry.default for entry in fields(TrainSettings)}[name]
    rule = _FLAG if isinstance(default, bool) else _TEXT
    rule = {"block_size": _NUMBER, "max_distance": _NUMBER, "neighbours": _COUNT, "fold": _COUNT, "sample": _COUNT}.get(
        name, rule
    )
    _check(name, value, rule, where)
    if name in _CHOICES and value not in _CHOICES[name]:
        close = get_close_matches(value, _CHOICES[name], n=1)
        hint = f"Did you mean {close[0]!r}?" if close else "Choose one of them."
        raise ConfigError(f"{name} must be one of {listed(_CHOICES[name])}; got {value!r} ({where}). {hint}")
    return value


def _parameter(name: str, value: Any, default: Any, where: str, given: str) -> Any:
    """Check a parameter by the type of its default; text from a file may be a number, as YAML reads 1e-4.

    ``given`` is what it was called.
    """
    if isinstance(value, str):
        value = parse_value(value)
    if name == "spatial_columns":
        if isinstance(value, str):
            value = [column.strip() for column in value.split(",")]
        _check(name, value, _COLUMNS, where)
        return tuple(value)
    if name == "max_features":  # of a forest: a rule by name, or a share
        _check(name, value, _TEXT_OR_NUMBER, where)
        return value
    if name == "effort":
        _check(name, value, _TEXT_OR_NUMBER, where)
        return value
    if name == "base":
        if value is not None:
            _check(name, value, _TEXT, where)
        return value
    if default is None or name == "n_threads":  # None is a random seed, and as many threads as torch has
        if value is not None:
            _check(given, value, _COUNT, where)
        return value
    lists = _COUNTS if _are_counts(default) else _NUMBERS
    rules = {bool: _FLAG, int: _COUNT, float: _NUMBER, str: _TEXT, tuple: lists}
    _check(given, value, rules[type(default)], where)
    return tuple(value) if isinstance(default, tuple) else value
