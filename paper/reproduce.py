"""The paper's model as printed, with the supplement's grid searched: ``python -m paper.reproduce yeast --budget 20m``.

    python -m paper.reproduce scene --points 9 --first-epochs 10 --only dim=100,200 --seeds 0,1,2
                                                                     (needs HOTVAE_DATA_DIR, or hotvae data get)
    python -m paper.reproduce scene --also dropout=0.5 --seeds 0     (a neighbour of the choice, to learn what it cost)
    python -m paper.reproduce --render                               (writes docs/paper.md from what is stored)

The grid has 7,776 points of up to 200 epochs each; nobody can run it on a desk. A seeded draw of its points is halved
instead: all are trained for a few epochs, the best third by macro F1 on the validation rows for four times as many, and
so on until one is left. Training and validation rows of seed 0 choose; test rows are not read. The one that is left is
then fitted with every seed, for up to 200 epochs, and measured on test rows under both protocols.

Each fit is stored as soon as it is done, so that a run that was stopped goes on where it ended and chooses the same.
What was tried and chosen is in ``results/reproduce-search.jsonl``, what came of it in ``results/reproduce.jsonl``; the
settings are also in ``tuned/DATA.hotvae-paper.toml``, from where every table takes the row ``hotvae-paper``.
"""

from __future__ import annotations

import argparse
import json
import math
import shlex
import sys
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from sklearn.model_selection import ParameterGrid, ParameterSampler

from hotvae.checkpoint import json_ready
from hotvae.config import RECIPES
from hotvae.errors import ConfigError, DataWarning, listed
from hotvae.files import write_text
from hotvae.jobs.durations import duration_words, parse_duration
from hotvae.training.progress import Clock, OutOfTimeError, watched
from paper import DOCS, RESULTS
from paper.experiments import PAPER_MODEL, REPRODUCED, TUNED, Cell
from paper.runner import plan, revision, run, versions
from paper.store import DONE, Store, fit_fingerprint

GRID: dict[str, tuple[Any, ...]] = {
    "learning_rate": (2e-4, 3e-4, 7.5e-4),
    "intermediate_weight": (0.1, 0.2, 0.3),
    "ranking_weight": (1.0, 100.0, 1000.0),
    "kl_weight": (0.0, 1e-5, 1e-4),
    "dim": (100, 200, 512),
    "n_layers": (2, 3, 4, 5),
    "dropout": (0.0, 0.1, 0.2, 0.5),
    "graph": ("complete", "cooccurrence"),
}
"""The supplement's grid: step size, lambda_1, lambda_2, beta, d, decoder layers, dropout; and the two label graphs."""

ROWS: dict[str, dict[str, Any]] = {
    "scene": {"encoder": "mlp"},
    "yeast": {"encoder": "mlp"},
    "sider": {"encoder": "elements"},
    # "The other one is a two-layer FMP from [LaMP] for the rest of the datasets": words, and labels, are tokens.
    "bibtex": {"encoder": "set", "label_encoder": "tokens"},
}
"""What a row of each set is, and so which of the paper's two encoders reads it."""

SEARCH, WHY = "reproduce-search", "reproduce-why"
KEPT = 3
"""One in so many goes on."""
LONGER = 4
"""With so many times the epochs."""

Point = dict[str, Any]
Judge = Callable[[Point, int], float]


# --- the grid --------------------------------------------------------------------------------------------


def n_points_of(grid: Mapping[str, Sequence[Any]]) -> int:
    """Count the points of a grid.

    Examples
    --------
    >>> n_points_of(GRID)
    7776
    """
    return len(ParameterGrid(dict(grid)))


def settings_of(point: Mapping[str, Any]) -> dict[str, Any]:
    """Turn a point of the grid into settings: one dropout rate is that of encoders and decoder alike.

    Examples
    --------
    >>> settings_of({"dim": 100, "dropout": 0.2})
    {'dim': 100, 'encoder_dropout': 0.2, 'decoder_dropout': 0.2}
    """
    rest = {name: value for name, value in point.items() if name != "dropout"}
    if "dropout" in point:
        rest |= {"encoder_dropout": point["dropout"], "decoder_dropout": point["dropout"]}
    return rest


def restricted(only: Mapping[str, Sequence[Any]]) -> dict[str, tuple[Any, ...]]:
    """Return the grid with fewer values of some of its axes.

    Raises
    ------
    ConfigError
        A name or a value that the supplement does not have.

    Examples
    --------
    >>> restricted({"dim": [64]})
    Traceback (most recent call last):
    ...
    hotvae.errors.ConfigError: dim must be of the supplement's grid (100, 200, 512); got 64. Choose among them.
    """
    for name, values in only.items():
        if name not in GRID:
            raise ConfigError(f"--only must name an axis of the grid ({listed(GRID, len(GRID))}); got {name!r}.")
        wrong = [value for value in values if value not in GRID[name]]
        if wrong or not values:
            raise ConfigError(
                f"{name} must be of the supplement's grid ({listed(GRID[name])}); got {listed(wrong) or 'none'}. "
                "Choose among them."
            )
    return {name: tuple(only.get(name, values)) for name, values in GRID.items()}


# --- successive halving ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Draw:
    """Which points are tried, and for how long.

    Attributes
    ----------
    data : str
        Named set.
    n_points : int
        Points that are drawn from the grid.
    first_epochs : int
        Epochs of the first round.
    only : dict
        Axes of the grid with fewer values than the supplement's; empty for the whole grid.
    seed : int
        Of the draw, the split and the networks.

    Examples
    --------
    >>> Draw("yeast", n_points=9).rounds()
    [(9, 5), (3, 20)]
    """

    data: str
    n_points: int = 9
    first_epochs: int = 5
    only: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    seed: int = 0

    def __post_init__(self) -> None:
        if self.data not in ROWS:
            raise ConfigError(f"data must be one of {listed(ROWS, len(ROWS))}; got {self.data!r}. Choose one of them.")
        for name in ("n_points", "first_epochs"):
            if getattr(self, name) < 1:
                raise ConfigError(f"{name} must be at least 1; got {getattr(self, name)}. Try 9 points and 5 epochs.")

    def points(self) -> list[Point]:
        """Draw points, none twice."""
        grid = {name: list(values) for name, values in restricted(self.only).items()}
        n_points = min(self.n_points, n_points_of(grid))
        return [dict(point) for point in ParameterSampler(grid, n_points, random_state=self.seed)]

    def rounds(self) -> list[tuple[int, int]]:
        """List points and epochs of each round; the last round leaves one point."""
        longest = RECIPES["paper"]["max_epochs"]
        n_left, n_epochs = min(self.n_points, n_points_of(restricted(self.only))), self.first_epochs
        found = []
        while n_left > 1:
            found.append((n_left, min(n_epochs, longest)))
            n_left, n_epochs = math.ceil(n_left / KEPT), n_epochs * LONGER
        return found


def halve(points: Sequence[Point], rounds: Sequence[tuple[int, int]], judge: Judge) -> Point:
    """Give the best points more and more epochs until one is left.

    Parameters
    ----------
    points : sequence of dict
        In the order they were drawn; of equals the earlier one goes on.
    rounds : sequence of (int, int)
        Points and epochs of each round.
    judge : callable
        Gives a point's value after so many epochs; the larger the better.

    Returns
    -------
    dict
        The point that is left.

    Notes
    -----
    scikit-learn's ``HalvingRandomSearchCV`` does the same, but cannot go on after a kill, and its ``fit`` has no place
    for the validation rows by which the paper keeps an epoch.

    Examples
    --------
    >>> halve([{"dim": 100}, {"dim": 200}, {"dim": 512}], [(3, 5)], lambda point, epochs: -abs(point["dim"] - 210))
    {'dim': 200}
    """
    left = list(points)
    for n_left, n_epochs in rounds:
        values = [judge(point, n_epochs) for point in left[:n_left]]
        best_first = sorted(range(len(values)), key=lambda place: -values[place])
        left = [left[place] for place in best_first[: math.ceil(n_left / KEPT)]]
    return left[0]


@dataclass
class StoredJudge:
    """Fits a point, or reads what an earlier run has stored of it.

    Attributes
    ----------
    store : Store
        Where fits are kept.
    draw : Draw
        Whose points they are.
    deadline : float
        Seconds of ``time.time()`` after which no epoch is started.
    command : str
        Noted with the results.
    fit : callable
        Fits: takes a cell and a deadline and returns what is to be stored, ``macro_f1`` and ``cpu_seconds`` among it.
    """

    store: Store
    draw: Draw
    deadline: float
    command: str = ""
    fit: Callable[[Cell, float], dict[str, Any]] = field(default_factory=lambda: fit_on_validation)
    cpu_seconds: float = 0.0
    n_fits: int = 0
    say: Callable[[str], None] = print

    def __post_init__(self) -> None:
        self.known: dict[str, dict[str, Any]] = {
            line["fit"]: line for line in self.store.lines(SEARCH) if line["status"] == DONE and "macro_f1" in line
        }

    def __call__(self, point: Point, n_epochs: int) -> float:
        """Return macro F1 on the validation rows, at the best of the epochs."""
        settings = settings_of(point) | ROWS[self.draw.data] | {"max_epochs": n_epochs}
        variant = f"{json.dumps(point)}, {n_epochs} epochs"
        cell = Cell(SEARCH, variant, PAPER_MODEL, self.draw.data, seed=self.draw.seed, settings=settings)
        key = fit_fingerprint(cell, RECIPES["paper"] | settings)
        if key not in self.known:
            if time.time() > self.deadline:
                raise OutOfTimeError
            head: dict[str, Any] = {
                "cell": cell.to_dict(),
                "fit": key,
                "status": DONE,
                "point": point,
                "n_epochs": n_epochs,
            }
            self.known[key] = line = head | self.fit(cell, self.deadline) | _stamp(self.command)
            self.store.append(json_ready(line))
            self.say(
                f"{self.draw.data}, {n_epochs} epochs of {json.dumps(point)}: macro F1 {line['macro_f1']:.4f} "
                f"({line['cpu_seconds']:.0f} CPU s)"
            )
        line = self.known[key]
        self.cpu_seconds += line["cpu_seconds"]
        self.n_fits += 1
        return float(line["macro_f1"])


def fit_on_validation(cell: Cell, deadline: float) -> dict[str, Any]:
    """Fit a point on the training rows and judge it by the validation rows; test rows have no part.

    Raises
    ------
    OutOfTimeError
        When an epoch would begin after the deadline.
    """
    from paper.cells import read_parts, recipe_of

    recipe = recipe_of(cell)
    parts = read_parts(cell, recipe)
    model: Any = recipe.cls.from_settings(**{"random_state": cell.seed, "n_threads": 1} | recipe.parameters)
    started = time.process_time()
    with warnings.catch_warnings(), watched(Clock(deadline)):
        warnings.simplefilter("ignore", DataWarning)
        warnings.simplefilter("ignore", RuntimeWarning)
        model.fit(*parts.train, validation=parts.validation)
    record = model.history_.records[model.history_.best_epoch - 1]
    return {
        "macro_f1": record["validation_macro_f1"],
        "validation_log_loss": record["validation_log_loss"],
        "epoch": model.history_.best_epoch,
        "cpu_seconds": round(time.process_time() - started, 1),
    }


def search(draw: Draw, judge: StoredJudge) -> dict[str, Any]:
    """Choose a point, and note what was tried.

    Returns
    -------
    dict
        The stored line: what was ``chosen``, out of how many points.
    """
    point = halve(draw.points(), draw.rounds(), judge)
    rounds = draw.rounds()
    chosen = settings_of(point) | ROWS[draw.data]
    cell = Cell(SEARCH, "choice", PAPER_MODEL, draw.data, seed=draw.seed, settings=chosen)
    line = {
        "cell": cell.to_dict(),
        "fit": fit_fingerprint(cell, RECIPES["paper"] | chosen),
        "status": DONE,
        "chosen": point,
        "n_points": len(draw.points()),
        "n_grid": n_points_of(GRID),
        "only": {name: list(values) for name, values in draw.only.items()},
        "rounds": rounds,
        "n_fits": judge.n_fits,
        "cpu_seconds": round(judge.cpu_seconds, 1),
        "best": judge(point, rounds[-1][1]) if rounds else None,
    } | _stamp(judge.command)
    before = judge.store.latest(SEARCH).get(cell.place, {})
    same = ("chosen", "n_points", "only", "rounds")
    if [before.get(name) for name in same] != [json_ready(line)[name] for name in same]:
        judge.store.append(json_ready(line))
    return line


def write_chosen(line: Mapping[str, Any]) -> None:
    """Write what was chosen where every table finds it: whole, so that no default is part of it."""
    data = line["cell"]["data"]
    settings = {name: value for name, value in RECIPES["paper"].items() if value is not None}
    settings |= settings_of(line["chosen"]) | ROWS[data]
    if settings["encoder"] != "mlp":  # scaling and the like are of tables of numbers
        settings = {name: value for name, value in settings.items() if name not in ("scaling", "clamp")}
    n_points, n_grid = line["n_points"], line["n_grid"]
    text = [
        f"# The paper's recipe on {data}: {n_points} of {n_grid} points of the supplement's grid, halved by macro F1",
        f"# on the validation rows of seed {line['cell']['seed']}. {line['command']}",
    ]
    text += [f"{name} = {json.dumps(value)}" for name, value in settings.items()]
    write_text(TUNED / f"{data}.{PAPER_MODEL}.toml", "\n".join(text) + "\n")


def _stamp(command: str) -> dict[str, Any]:
    now = datetime.now(UTC).isoformat(timespec="seconds")
    return {"versions": versions(), "command": command, "date": now, "revision": revision()}


# --- the command -----------------------------------------------------------------------------------------


def parse_axis(text: str) -> tuple[str, list[Any]]:
    """Read an axis such as ``dim=100,200``.

    Examples
    --------
    >>> parse_axis("dim=100,200"), parse_axis("graph=complete")
    (('dim', [100, 200]), ('graph', ['complete']))
    """
    name, _, values = text.partition("=")

    def value_of(word: str) -> Any:
        try:
            return json.loads(word)
        except json.JSONDecodeError:
            return word

    return name, [value_of(word) for word in values.split(",") if word]


def neighbours_of(data: str, change: str, seeds: Sequence[int]) -> list[Cell]:
    """List fits of what was chosen for a set with one axis of the grid at another value.

    They are looked at after the choice and choose nothing.

    Examples
    --------
    >>> neighbours_of("scene", "dropout=0.5", [0])[0].settings
    {'encoder_dropout': 0.5, 'decoder_dropout': 0.5}
    """
    name, values = parse_axis(change)
    restricted({name: values})
    settings = settings_of({name: values[0]})
    return [Cell(WHY, change, PAPER_MODEL, data, seed=seed, settings=settings) for seed in seeds]


def main(argv: Sequence[str] | None = None) -> int:
    """Search, fit and measure; or write the page.

    Examples
    --------
    >>> main(["reuters"])
    Traceback (most recent call last):
    ...
    hotvae.errors.ConfigError: data must be one of 'scene', 'yeast', 'sider', 'bibtex'; got 'reuters'. ...
    """
    parser = argparse.ArgumentParser(prog="python -m paper.reproduce", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("data", nargs="*", help=f"sets, of {', '.join(ROWS)}")
    parser.add_argument("--seeds", default="0,1,2", help="seeds of split and network; the search has seed 0")
    parser.add_argument("--points", type=int, default=Draw.n_points, help="points of the grid that are drawn")
    parser.add_argument("--first-epochs", type=int, default=Draw.first_epochs, help="epochs of the first round")
    parser.add_argument("--only", action="append", default=[], metavar="AXIS=VALUES", help="fewer values of an axis")
    parser.add_argument("--also", metavar="AXIS=VALUE", help="measure a neighbour of what was chosen before instead")
    parser.add_argument("--budget", default="20m", help="time for each set; the same command goes on later")
    parser.add_argument("--render", action="store_true", help="write docs/paper.md")
    options = parser.parse_args(argv)
    arguments = list(sys.argv[1:] if argv is None else argv)
    command = shlex.join(["python", "-m", "paper.reproduce", *arguments])
    store = Store(RESULTS)
    only = dict(parse_axis(text) for text in options.only)
    budget = parse_duration(options.budget, "--budget")
    for data in options.data:
        draw = Draw(data, options.points, options.first_epochs, only)
        deadline = time.time() + budget
        seeds = [int(seed) for seed in options.seeds.split(",")]
        if options.also:
            run(store, plan(store, neighbours_of(data, options.also, seeds)), budget=budget, command=command, say=print)
            continue
        try:
            line = search(draw, StoredJudge(store, draw, deadline, command))
        except OutOfTimeError:
            print(f"{data}: {duration_words(budget)} are spent before the search was over; the same command goes on")
            continue
        print(f"{data}: chosen out of {line['n_points']} of {line['n_grid']} points: {json.dumps(line['chosen'])}")
        write_chosen(line)
        cells = [Cell(REPRODUCED, PAPER_MODEL, PAPER_MODEL, data, seed=seed) for seed in seeds]
        left = max(1.0, deadline - time.time())
        run(store, plan(store, cells), budget=left, limit=left, command=command, say=print)
    if options.render:
        from paper.reproduce_page import reproduce_page

        write_text(DOCS / "paper.md", reproduce_page(store))
        print("wrote paper.md")
    return 0


if __name__ == "__main__":
    sys.exit(main())
