"""From the text files of eBird to a table that a model can learn: one row a checklist, one column a species.

The steps, in their order: lines are filtered one by one; members of a group become one checklist; subspecies and other
forms become their species; checklists may be set aside for a test and thinned; every species that is left gets a
column, 0 where a checklist does not have it. An audit says what each step cost. DuckDB reads the text, in bounded
memory; finished pieces stay on the disk until the table is written, so that a run that was stopped can go on.
"""

import hashlib
import json
import os
import re
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pandas as pd

from hotvae.checkpoint import json_ready
from hotvae.config import require_choice, require_count, require_number, require_share
from hotvae.data.frames import write_table
from hotvae.errors import ConfigError
from hotvae.files import write_text
from hotvae.geo.ebird_effort import CHECKLIST_COLUMNS
from hotvae.geo.ebird_filters import BEST_PRACTICE, Filters
from hotvae.geo.ebird_steps import Stages
from hotvae.geo.ebird_text import PIECE_BYTES, TextFile, open_pair, open_text

__all__ = ["BEST_PRACTICE", "CHECKLIST_COLUMNS", "Filters", "Prepared", "prepare", "read_observations"]


@dataclass(frozen=True)
class Prepared:
    """What came out of :func:`prepare`.

    Attributes
    ----------
    files : tuple of Path
        The table, the names of its species, the audit, notes; and the test rows and the counts where they were wanted.
    audit : DataFrame
        One row a step: ``table`` (checklists or observations), ``step``, ``lost`` and ``left``.
    species : DataFrame
        One row a column: ``scientific_name``, ``common_name``, ``detections`` among the training rows, ``x`` of them
        without a count.
    n_checklists, n_test : int
        Rows for training, and for a test.
    """

    files: tuple[Path, ...]
    audit: pd.DataFrame
    species: pd.DataFrame
    n_checklists: int
    n_test: int


def prepare(
    ebd: str | os.PathLike[str],
    sampling: str | os.PathLike[str],
    out: str | os.PathLike[str],
    *,
    filters: Filters | None = None,
    min_detections: int = 1,
    names: str = "scientific",
    thin_km: float | None = None,
    test_share: float = 0.0,
    test_block_km: float | None = None,
    counts: bool = False,
    seed: int = 0,
    memory: str = "1GB",
    threads: int | None = None,
    piece_bytes: int = PIECE_BYTES,
    progress: Callable[[str, int, int | None], None] | None = None,
) -> Prepared:
    """Turn an eBird Basic Dataset and its sampling file into a table of checklists by species.

    Parameters
    ----------
    ebd, sampling : path
        Observations and checklists of one release: text as downloaded, plain, ``.gz`` or ``.zip`` (which may be one
        and the same file that holds both).
    out : path
        A ``.parquet`` file. Beside it are written ``.species.txt`` (the names of the labels), ``.species.csv``,
        ``.audit.csv`` and ``.json`` (settings and versions).
    filters : Filters, optional
        Which lines count; by default complete checklists.
    min_detections : int
        Leave out species seen on fewer training checklists.
    names : {"scientific", "common"}
        What the columns of species are called.
    thin_km : float, optional
        Keep one checklist, drawn at random, of each square cell of that side and each week. Test rows are not thinned.
    test_share : float
        Set aside about that share of the checklists, in whole blocks of the map, before thinning.
    test_block_km : float, optional
        Side of these blocks; by default about 50 of them cover the region.
    counts : bool
        Also write ``.counts.parquet``: one row a detection, with the count, empty for ``X``.
    seed : int
        Decides what is drawn.
    memory : str
        What DuckDB may hold; more goes to the disk.
    threads : int, optional
        Threads of DuckDB; by default all.
    piece_bytes : int
        Text between two points where a stopped run goes on.
    progress : callable, optional
        Called with the name of the stage, bytes or rows done, and all of them, None where that is not known.

    Returns
    -------
    Prepared

    Raises
    ------
    DataError
        Files that are damaged, of other columns, or of two releases; or nothing left.
    ConfigError
        Settings that are not allowed.

    Notes
    -----
    A group's checklist is that of the member whose id comes first as text; a species is there if any member saw it, in
    the largest number that any member counted. Forms of a species on one checklist are summed, and are ``X``, there
    without a number, if any of them is. A count of 0 is an absence.
    """
    target, filters = Path(out), filters or Filters()
    if not filters.complete:
        raise ConfigError(
            "checklists must be complete where what they lack is to be an absence; got complete=False. Leave it out."
        )
    _check_settings(target, min_detections, names, thin_km, test_share, test_block_km, memory, piece_bytes)
    observations, checklists = open_pair(ebd, sampling)
    settings = {
        "filters": asdict(filters),
        "thin_km": thin_km,
        "test_share": test_share,
        "test_block_km": test_block_km,
        "seed": seed,
        "piece_bytes": piece_bytes,
    }
    run = Stages(target, memory, threads, piece_bytes, progress or (lambda *_: None))
    with run.open(_identity((observations, checklists), settings)):
        n_lines, lost_lines = run.read(checklists, "sampling", filters)
        n_records, lost_records = run.read(observations, "observations", filters)
        run.merge_groups()
        run.choose_rows(thin_km, test_share, test_block_km, seed)
        run.match_observations(observations.name, checklists.name)
        run.sum_detections()
        species = run.species(min_detections, names)
        audit = run.audit(n_lines, lost_lines, n_records, lost_records, filters, species, min_detections, thin_km)
        sizes, files = run.write(target, species, counts)
        kept = species[species["column"].notna()].drop(columns=["code", "column", "n_all"]).reset_index(drop=True)
        stem = target.with_suffix("")
        files += [Path(f"{stem}{end}") for end in (".species.txt", ".species.csv", ".audit.csv", ".json")]
        write_text(files[-4], "".join(f"{name}\n" for name in species["column"].dropna()))
        write_table(kept, files[-3])
        write_table(audit, files[-2])
        notes = {
            "sources": [observations.name, checklists.name],
            "settings": settings | {"min_detections": min_detections, "names": names},
            "versions": {"hotvae": version("hotvae"), "duckdb": version("duckdb")},
            "n_checklists": sizes[0],
            "n_test": sizes[1],
            "n_species": len(kept),
        }
        write_text(files[-1], json.dumps(json_ready(notes), indent=1) + "\n")
    return Prepared(tuple(files), audit, kept, *sizes)


def read_observations(
    ebd: str | os.PathLike[str],
    folder: str | os.PathLike[str],
    *,
    filters: Filters | None = None,
    memory: str = "1GB",
    threads: int | None = None,
    piece_bytes: int = PIECE_BYTES,
) -> pd.DataFrame:
    """Read the observations of an EBD alone: groups merged, forms summed to species, nothing filled in.

    Parameters
    ----------
    ebd : path
        The observations.
    folder : path
        Room for pieces while it works.
    filters : Filters, optional
        Which lines count; here checklists need not be complete (by default all lines count).
    memory, threads, piece_bytes
        As in :func:`prepare`.

    Returns
    -------
    DataFrame
        ``checklist_id``, ``scientific_name``, ``common_name``, ``observation_count`` (missing for ``X``); rows by
        checklist and species.
    """
    filters = filters or Filters(complete=False)
    file = open_text(ebd, "observations")
    run = Stages(Path(folder) / "observations", memory, threads, piece_bytes, lambda *_: None)
    with run.open(_identity((file,), {"filters": asdict(filters), "piece_bytes": piece_bytes})):
        run.read(file, "observations", filters)
        table = run.merged_observations()
    return table


def _check_settings(
    target: Path,
    min_detections: int,
    names: str,
    thin_km: float | None,
    test_share: float,
    test_block_km: float | None,
    memory: str,
    piece_bytes: int,
) -> None:
    if target.suffix.lower() != ".parquet":
        raise ConfigError(f"out must end in .parquet; got {target.name!r}. Rename it.")
    if not target.parent.is_dir():
        raise ConfigError(f"output folder must exist; got {str(target.parent)!r}. Make it, or choose another.")
    require_count("min_detections", min_detections)
    require_choice("names", names, ("scientific", "common"))
    require_share("test_share", test_share)
    require_count("piece_bytes", piece_bytes)
    for name, value in (("thin_km", thin_km), ("test_block_km", test_block_km)):
        if value is not None:
            require_number(name, value, above=True)
    if not re.fullmatch(r"\d+(\.\d+)?\s*[KMGT]i?B", memory):
        raise ConfigError(f"memory must be an amount such as 1GB or 500MB; got {memory!r}. Correct it.")


def _identity(files: Sequence[TextFile], settings: dict[str, Any]) -> str:
    """Tell runs apart: pieces of other files or settings must not be used."""
    stats = [(str(file.path.resolve()), file.member, file.path.stat()) for file in files]
    found = [(path, member, stat.st_size, stat.st_mtime_ns) for path, member, stat in stats]
    versions = [version("hotvae"), version("duckdb")]
    return hashlib.sha256(json.dumps([found, settings, versions], default=str).encode()).hexdigest()
