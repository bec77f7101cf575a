"""Attack the command line and its files many times, store what was found, and write it into docs/reliability.md.

    python -m paper.reliability --hostile 100000 --crashes 2000 --rounds 1000    # hours; goes on where it was stopped
    python -m paper.reliability --batches                                        # two minutes
    python -m paper.reliability --claims                                         # two minutes
    python -m paper.reliability --minutes 30                                     # make soak: new cases, nothing stored
    python -m paper.reliability --case "model 151"                               # one of them again
    python -m paper.reliability --render

Cases are those of tests/hostile: a kind and a number each, the same on every machine. A case that went wrong is stored
with its number and is run again by the next call, so that the page says what holds of the code as it is.
"""

import argparse
import contextlib
import io
import json
import random
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
from tests.hostile.batches import largest_difference
from tests.hostile.cases import KINDS, Workshop, claims
from tests.hostile.concurrency import ROUNDS
from tests.hostile.crashes import Operations
from tests.hostile.judge import judged

from hotvae.estimators.registry import CLASSIFIERS
from hotvae.files import write_text
from hotvae.training.progress import peak_memory
from paper import DOCS, RESULTS
from paper.runner import provenance
from paper.summaries import markdown_table, replace_marked

FILE, PAGE = RESULTS / "reliability.json", DOCS / "reliability.md"
COMMAND = "python -m paper.reliability --hostile 100000 --crashes 2000 --rounds 1000"
_WANTED = {"hostile": 100_000, "crashes": 2_000, "rounds": 1_000}
_AT_ONCE = 50  # cases between two looks at the clock and at the file
_MOST_BYTES = 12 << 30  # of addresses, of which torch and its libraries take some by being there
_MOST_GROWTH = 1.5  # GB that one case, of a few kilobytes, may add to what the process has ever held

Attack = Callable[[str, int], tuple[str, str]]
"""Runs a case; returns how it ended in a word, and what is wrong with it."""


def attacks(folder: Path) -> dict[str, tuple[tuple[str, ...], Attack]]:
    """Set up a workshop in an empty folder; return for each group of attacks its kinds, and what runs a case."""
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        shop = Workshop(folder / "shop")
    operations = Operations(shop.good / "ridge", shop.good / "sites.parquet")

    def hostile(kind: str, number: int) -> tuple[str, str]:
        code, problem = judged(shop.make(kind, number))
        return {0: "succeeded", 2: "refused"}.get(-1 if code is None else code, "failed"), problem

    def crash(kind: str, number: int) -> tuple[str, str]:
        return "crashed", operations.crash(kind, number, folder / "crash")

    def together(kind: str, number: int) -> tuple[str, str]:
        return "rounds", ROUNDS[kind](shop, folder / "rounds", number)

    return {
        "hostile": (tuple(KINDS), hostile),
        "crashes": (tuple(operations.by_name), crash),
        "rounds": (tuple(ROUNDS), together),
    }


def extend(stored: dict[str, Any], group: str, kinds: tuple[str, ...], run: Attack, n_cases: int) -> Iterator[None]:
    """Run cases of a group until there are ``n_cases``, evenly over its kinds; yields now and then, to be saved.

    Parameters
    ----------
    stored : dict
        What is known so far; grows.
    group : str
        ``"hostile"``, ``"crashes"`` or ``"rounds"``.
    kinds : tuple of str
        Kinds of the group.
    run : callable
        Runs a case.
    n_cases : int
        How many are wanted in all.
    """
    known = stored.setdefault(group, {})
    for kind in kinds:
        known.setdefault(kind, {"n": 0, "ends": {}, "problems": {}})
        for number in list(known[kind]["problems"]):  # mended by now?
            _, problem = run(kind, int(number))
            if not problem:
                del known[kind]["problems"][number]
        yield
    each = -(-n_cases // len(kinds))
    while any(known[kind]["n"] < each for kind in kinds):
        kind = min(kinds, key=lambda name: known[name]["n"])
        entry = known[kind]
        for _ in range(min(_AT_ONCE, each - entry["n"])):
            number = entry["n"]
            end, problem = run(kind, number)
            entry["n"] += 1
            entry["ends"][end] = entry["ends"].get(end, 0) + 1
            if problem:
                entry["problems"][str(number)] = problem
        yield


def soak(minutes: float, seed: int | None = None) -> int:
    """Run new cases for a while; return how many went wrong, each of which is printed."""
    first = random.Random(seed).randrange(10**6, 10**9)
    _limit_memory()
    print(f"cases from {first}", flush=True)
    until, n_run, n_wrong = time.monotonic() + 60 * minutes, 0, 0
    with tempfile.TemporaryDirectory() as folder:
        groups = attacks(Path(folder))
        while time.monotonic() < until:
            for _, (kinds, run) in groups.items():
                for kind in kinds:
                    before = peak_memory() or 0.0
                    problem = run(kind, first + n_run)[1]
                    if not problem and (peak_memory() or 0.0) > before + _MOST_GROWTH:
                        problem = f"took {peak_memory()} GB"  # and was refused for want of more, perhaps
                    n_run += 1
                    if problem:
                        n_wrong += 1
                        print(f"{kind} {first + n_run - 1}: {problem}", flush=True)
    print(f"{n_run} cases in {minutes:g} minutes, {n_wrong} went wrong")
    return n_wrong


def _limit_memory() -> None:
    """Let a case that takes too much end by itself, with its number, before the system ends all of them without."""
    with contextlib.suppress(ImportError, OSError, ValueError):  # not on every system
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (_MOST_BYTES, resource.getrlimit(resource.RLIMIT_AS)[1]))


def all_claims() -> dict[str, Any]:
    """Let models claim large sizes, one by one; tell what went wrong, and how much memory was held at most."""
    with tempfile.TemporaryDirectory() as folder:
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            shop = Workshop(Path(folder) / "shop")
        judgements = {title: judged(case)[1] for title, case in claims(shop)}
    problems = {title: problem for title, problem in judgements.items() if problem}
    return {"n": len(judgements), "problems": problems, "peak_memory_gb": peak_memory(), **provenance(0)}


def render(stored: dict[str, Any]) -> None:
    """Write the counts into the page."""
    names = {"hostile": "Malformed input", "crashes": "Disk that fails", "rounds": "Runs at once"}
    tables = []
    for group, title in names.items():
        rows = [
            [kind, f"{entry['n']:,}", _ends(entry["ends"]), f"{len(entry['problems'])}"]
            for kind, entry in stored.get(group, {}).items()
        ]
        total = sum(entry["n"] for entry in stored.get(group, {}).values())
        wrong = sum(len(entry["problems"]) for entry in stored.get(group, {}).values())
        rows.append(["**all**", f"**{total:,}**", "", f"**{wrong}**"])
        tables.append(markdown_table([title, "cases", "ended", "went wrong"], rows))
        if total < _WANTED[group]:
            tables.append(f"{total:,} of {_WANTED[group]:,} have been run so far.\n")
    rows = [
        [name, "equal in every bit" if not most else f"{most:.0e}"] for name, most in stored.get("batches", {}).items()
    ]
    if found := stored.get("claims"):
        tables.append(
            f"Sizes that a model merely claims: {found['n']:,} edits of its description, each value in turn made a\n"
            f"large number under a checksum that fits; {len(found['problems'])} went wrong, and the process held\n"
            f"{found['peak_memory_gb']:.1f} GB at most (`python -m paper.reliability --claims`).\n"
        )
    page = replace_marked(PAGE.read_text(encoding="utf-8"), "counts", "\n".join(tables))
    write_text(PAGE, replace_marked(page, "batches", markdown_table(["model", "largest difference"], rows)))


def _ends(ends: dict[str, int]) -> str:
    return ", ".join(f"{count:,} {end}" for end, count in sorted(ends.items()) if end in ("succeeded", "refused"))


def main() -> int:
    """Run what is asked for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--hostile", type=int, default=0, help="cases of malformed input, in all")
    parser.add_argument("--crashes", type=int, default=0, help="cases of a disk that fails, in all")
    parser.add_argument("--rounds", type=int, default=0, help="rounds of runs at once, in all")
    parser.add_argument("--batches", action="store_true", help="predictions of each model in other batches")
    parser.add_argument("--claims", action="store_true", help="models that claim large sizes")
    parser.add_argument("--minutes", type=float, help="run new cases for so long, and store nothing")
    parser.add_argument("--budget", type=float, default=float("inf"), help="stop after so many minutes")
    parser.add_argument("--case", help="run one case again, such as 'model 151'")
    parser.add_argument("--render", action="store_true", help="only write the page")
    asked = parser.parse_args()
    torch.set_num_threads(1)
    if asked.minutes is not None:
        return 1 if soak(asked.minutes) else 0
    if asked.case is not None:
        kind, _, number = asked.case.rpartition(" ")
        with tempfile.TemporaryDirectory() as folder:
            run = next(run for kinds, run in attacks(Path(folder)).values() if kind in kinds)
            print(*run(kind, int(number)))
        return 0
    stored = json.loads(FILE.read_text(encoding="utf-8")) if FILE.exists() else {}
    until = time.monotonic() + 60 * asked.budget
    if asked.batches:
        stored["batches"] = {name: largest_difference(name) for name in CLASSIFIERS}
        write_text(FILE, json.dumps(stored, indent=1) + "\n")
    elif asked.claims:
        stored["claims"] = all_claims()
        write_text(FILE, json.dumps(stored, indent=1) + "\n")
    elif not asked.render:
        with tempfile.TemporaryDirectory() as folder:
            for group, (kinds, run) in attacks(Path(folder)).items():
                for _ in extend(stored, group, kinds, run, getattr(asked, group)):
                    stored["run"] = {"command": COMMAND, **provenance(0)}
                    write_text(FILE, json.dumps(stored, indent=1) + "\n")
                    if time.monotonic() > until:
                        break
    render(stored)
    return 0


if __name__ == "__main__":
    sys.exit(main())
