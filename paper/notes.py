"""What stands under every table: how it is repeated, what it took, what is missing and why."""

from hotvae.jobs.durations import duration_words
from paper.experiments import Experiment
from paper.store import DONE, Store
from paper.summaries import joined, plural


def cost_note(store: Store, experiment: Experiment) -> str:
    """Say how an experiment is repeated, what it took and which cells are missing.

    Parameters
    ----------
    store : Store
        Results.
    experiment : Experiment
        Which one.

    Returns
    -------
    str
        Markdown.

    Examples
    --------
    >>> import tempfile
    >>> from paper.experiments import EXPERIMENTS
    >>> print(cost_note(Store(tempfile.mkdtemp()), EXPERIMENTS["tables"]).splitlines()[0])
    Repeat: `hotvae benchmark tables`. 0 of 455 cells are here; ...
    """
    latest = store.latest(experiment.name)
    declared = {cell.place for cell in experiment.cells()}
    done = [line for line in latest.values() if line["status"] == DONE]
    own = [line for line in done if "copied_from" not in line]
    seconds = sum(float(line.get("seconds", 0.0)) for line in own)
    dates = sorted(str(line["date"])[:10] for line in done if "date" in line)
    when = f" Run from {dates[0]} to {dates[-1]}," if dates else ""
    revisions = sorted({str(line["revision"]) for line in done if line.get("revision")})
    which = f" at {plural(len(revisions), 'revision')} ({joined(revisions[:3])}{' …' if len(revisions) > 3 else ''})."
    n_here = len(declared & {place for place, line in latest.items() if line["status"] == DONE})
    text = (
        f"Repeat: `hotvae benchmark {experiment.name}`. {n_here} of {len(declared)} cells are here; they took "
        f"{duration_words(seconds)} in all on one thread each.{when}{which if dates else ''}\n"
    )
    failed = [(place, line) for place, line in latest.items() if line["status"] != DONE]
    for (_, variant, data, split, seed), line in failed:
        where = f"{data}, split {split}" if split else data
        text += f"\n* Missing: {variant} on {where}, seed {seed}: {line['status']}: {line.get('error', '')}"
    return text + ("\n" if failed else "")
