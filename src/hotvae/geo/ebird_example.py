"""Virtual eBird files of any size, in the layout of real ones: for trying, testing and timing what reads them.

Species, places and checklists are made up; the columns, and what makes real files awkward, are not: group checklists,
subspecies beside their species, records of no species, ``X`` for present without a count, incomplete checklists,
efforts that were not written down, quotes in comments.
"""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date, timedelta
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hotvae.config import require_count, require_number
from hotvae.errors import ConfigError

_BEFORE = (
    "GLOBAL UNIQUE IDENTIFIER, LAST EDITED DATE, TAXONOMIC ORDER, CATEGORY, TAXON CONCEPT ID, COMMON NAME, "
    "SCIENTIFIC NAME, SUBSPECIES COMMON NAME, SUBSPECIES SCIENTIFIC NAME, EXOTIC CODE, OBSERVATION COUNT, "
    "BREEDING CODE, BREEDING CATEGORY, BEHAVIOR CODE, AGE/SEX"
)
_SHARED = (
    "COUNTRY, COUNTRY CODE, STATE, STATE CODE, COUNTY, COUNTY CODE, IBA CODE, BCR CODE, USFWS CODE, ATLAS BLOCK, "
    "LOCALITY, LOCALITY ID, LOCALITY TYPE, LATITUDE, LONGITUDE, OBSERVATION DATE, TIME OBSERVATIONS STARTED, "
    "OBSERVER ID, OBSERVER ORCID ID, SAMPLING EVENT IDENTIFIER, OBSERVATION TYPE, PROTOCOL NAME, PROTOCOL CODE, "
    "PROJECT NAMES, PROJECT IDENTIFIERS, DURATION MINUTES, EFFORT DISTANCE KM, EFFORT AREA HA, NUMBER OBSERVERS, "
    "ALL SPECIES REPORTED, GROUP IDENTIFIER"
)
_AFTER = "HAS MEDIA, APPROVED, REVIEWED, REASON, CHECKLIST COMMENTS, SPECIES COMMENTS"

EBD_COLUMNS = tuple(", ".join((_BEFORE, _SHARED, _AFTER)).split(", "))
"""Columns of an eBird Basic Dataset, in their order."""

SAMPLING_COLUMNS = ("LAST EDITED DATE", *_SHARED.split(", "), "CHECKLIST COMMENTS")
"""Columns of its file of checklists."""

EXAMPLE_BOUNDS = (-76.5, 42.0, -74.5, 43.5)
"""West, south, east and north of virtual files, in degrees."""

_PROTOCOLS = (("Traveling", 22, 0.6), ("Stationary", 21, 0.3), ("Incidental", 20, 0.07), ("Area", 23, 0.03))
_BIRDS = {
    "Wren": "Avicula",
    "Owl": "Bubula",
    "Heron": "Ardeola",
    "Finch": "Fringula",
    "Gull": "Larula",
    "Lark": "Alaudula",
    "Swift": "Apula",
    "Rail": "Rallula",
    "Tern": "Sternula",
    "Crake": "Porzula",
}
_PLANTS = {
    "Alder": "alnea",
    "Birch": "betulae",
    "Cedar": "cedri",
    "Dogwood": "corni",
    "Elder": "sambuci",
    "Fir": "abietis",
    "Gorse": "ulicis",
    "Hazel": "coryli",
    "Ivy": "hederae",
    "Juniper": "juniperi",
}
_EDITED = "2025-01-15 10:20:30.123456"
_FIRST_DAY = date(2020, 1, 1)
_N_DAYS = 1826  # five years
_BLOCK = 4000


class ExampleFiles(NamedTuple):
    """Two files that belong together, and what is in them.

    Attributes
    ----------
    ebd, sampling : Path
        Observations, and checklists.
    n_observations, n_checklists : int
        Their lines.
    """

    ebd: Path
    sampling: Path
    n_observations: int
    n_checklists: int


@dataclass(frozen=True)
class _Species:
    """What grows where: a niche of latitude, ground and season for each species, and how its records read."""

    taxa: list[str]
    subspecies: list[str]
    optimum: NDArray[np.float64]  # (species, 3): north, ground, season, each within -1 and 1
    rate: NDArray[np.float64]

    @classmethod
    def invent(cls, n_species: int, random: np.random.Generator) -> "_Species":
        taxa, subspecies = [], []
        for i in range(n_species):
            common, scientific = species_name(i)
            start = f"{100 * (i + 1)}\t%s\tavibase-{i + 1:08X}\t{common}\t{scientific}\t"
            taxa.append(start % "species" + "\t\t")
            subspecies.append(start % "issf" + f"{common} (Northern)\t{scientific} borealis\t")
        return cls(taxa, subspecies, random.uniform(-1, 1, (n_species, 3)), random.uniform(0.2, 2.5, n_species))

    def chances(self, where: NDArray[np.float64], hours: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return how likely each species is to be seen at each place within these hours."""
        far = np.abs(where[:, None, :] - self.optimum[None])
        far[..., 2] = np.minimum(far[..., 2], 2 - far[..., 2])  # the year is a circle
        suits = np.exp(-(far**2 * (3.0, 2.0, 1.0)).sum(axis=2))
        chances: NDArray[np.float64] = 1 - np.exp(-self.rate * suits * np.sqrt(hours)[:, None])
        return chances


def species_name(number: int) -> tuple[str, str]:
    """Return common and scientific name of a virtual species.

    Examples
    --------
    >>> species_name(0), species_name(27)
    (('Alder Wren', 'Avicula alnea'), ('Hazel Heron', 'Ardeola coryli'))
    """
    bird_names = list(_BIRDS.items())
    plant_names = list(_PLANTS.items())
    again, rest = divmod(number, len(bird_names) * len(plant_names))
    (bird, genus), (plant, epithet) = bird_names[rest // len(plant_names)], plant_names[rest % len(plant_names)]
    ending = "" if again == 0 else "abcdefghijklmnopqrstuvwxyz"[again % 26] * (1 + again // 26)
    return f"{plant} {bird} {ending}".strip(), f"{genus} {epithet}{ending}"


def write_example(
    folder: str | os.PathLike[str],
    *,
    n_checklists: int | None = None,
    gigabytes: float | None = None,
    n_species: int = 30,
    bounds: tuple[float, float, float, float] = EXAMPLE_BOUNDS,
    random_state: int = 0,
) -> ExampleFiles:
    """Write a virtual pair of eBird files.

    Parameters
    ----------
    folder : path
        An existing folder; files of the same names are replaced.
    n_checklists : int, optional
        Lines of the file of checklists, before groups are merged (default 2000).
    gigabytes : float, optional
        Instead: write until the file of observations is that large.
    n_species : int
        Virtual species.
    bounds : tuple of float
        West, south, east and north, in degrees.
    random_state : int
        The same number gives the same files.

    Returns
    -------
    ExampleFiles

    Raises
    ------
    ConfigError
        Settings that are not allowed.
    """
    if n_checklists is not None and gigabytes is not None:
        raise ConfigError("size must be n_checklists or gigabytes; got both. Leave one out.")
    if gigabytes is not None:
        require_number("gigabytes", gigabytes, above=True)
    wanted = require_count("n_checklists", 2000 if n_checklists is None else n_checklists)
    require_count("n_species", n_species)
    west, south, east, north = bounds
    if not (-180 <= west < east <= 180 and -90 <= south < north <= 90):
        raise ConfigError(f"bounds must be west, south, east, north in degrees; got {bounds}. Correct them.")
    random = np.random.default_rng(random_state)
    species = _Species.invent(n_species, random)
    target = Path(folder)
    ebd, sampling = target / "ebd_XX_relJan-2025.txt", target / "ebd_XX_relJan-2025_sampling.txt"
    n_events = n_observations = 0
    parts = [path.with_name(f".{path.name}.part") for path in (ebd, sampling)]
    try:
        with (
            parts[0].open("w", encoding="utf-8", newline="") as seen,
            parts[1].open("w", encoding="utf-8", newline="") as events,
        ):
            seen.write("\t".join(EBD_COLUMNS) + "\t\n")
            events.write("\t".join(SAMPLING_COLUMNS) + "\t\n")
            while n_events < wanted if gigabytes is None else seen.tell() < gigabytes * 1e9:
                size = min(_BLOCK, wanted - n_events) if gigabytes is None else _BLOCK
                for event, records in _checklists(size, n_events, species, bounds, random):
                    events.write(f"{_EDITED}\t{event}\t\t\n")
                    for taxon, count in records:
                        n_observations += 1
                        seen.write(
                            f"URN:CornellLabOfOrnithology:EBIRD:OBS{n_observations}\t{_EDITED}\t{taxon}\t{count}\t\t\t\t\t"
                            f'{event}\t0\t1\t0\t\tSaid to be "good\t\t\n'
                        )
                n_events += size
        for part, path in zip(parts, (ebd, sampling), strict=True):
            part.replace(path)
    finally:
        for part in parts:
            part.unlink(missing_ok=True)
    return ExampleFiles(ebd, sampling, n_observations, n_events)


def _checklists(
    n_lines: int,
    before: int,
    species: _Species,
    bounds: tuple[float, float, float, float],
    random: np.random.Generator,
) -> Iterator[tuple[str, list[tuple[str, str]]]]:
    """Yield the shared columns of each checklist and its records: a taxon's columns, and the count."""
    west, south, east, north = bounds
    n_places = max(1, n_lines // 4)
    places = random.uniform((west, south), (east, north), (n_places, 2)).round(7)
    place = random.integers(0, n_places, n_lines)
    lon, lat = places[place].T
    day = random.integers(0, _N_DAYS, n_lines)
    ground = np.sin(3 * np.pi * (lon - west) / (east - west)) * np.cos(2 * np.pi * (lat - south) / (north - south))
    where = np.column_stack([2 * (lat - south) / (north - south) - 1, ground, 2 * (day % 365.25) / 365.25 - 1])
    minutes = np.clip(random.lognormal(3.9, 0.8, n_lines), 1, 600).astype(int)
    kilometres = np.round(random.lognormal(0.4, 0.9, n_lines), 3)
    protocol = random.choice(len(_PROTOCOLS), n_lines, p=[share for *_, share in _PROTOCOLS])
    start = random.integers(5 * 60, 19 * 60, n_lines)
    observers = random.integers(1, 5, n_lines)
    complete = (random.random(n_lines) < 0.9).astype(int)
    is_seen = random.random((n_lines, len(species.taxa))) < species.chances(where, minutes / 60)
    counts = random.geometric(0.3, is_seen.shape)
    manner = random.random(is_seen.shape)
    whose = random.integers(0, 5000, n_lines)
    joins = random.random(n_lines) < 0.05  # shares the outing of the line before
    has_spuh = random.random(n_lines) < 0.1
    lost = random.random((2, n_lines)) < 0.02
    group, source = 0, 0
    for i in range(n_lines):
        if joins[i] and i > 0:
            event = source
            group = group or before + i
        else:
            event, source, group = i, i, 0
        leads = i + 1 < n_lines and bool(joins[i + 1])
        if leads and not group:
            group = before + i + 1
        name, code, _ = _PROTOCOLS[protocol[event]]
        timed = name != "Incidental" and not lost[0, event]
        walked = name == "Traveling" and not lost[1, event]
        when = (_FIRST_DAY + timedelta(days=int(day[event]))).isoformat()
        clock = f"{start[event] // 60:02d}:{start[event] % 60:02d}:00" if timed else ""
        shared = (
            f"Virtualia\tXX\tNorthland\tXX-NO\tCounty {place[event] % 7}\tXX-NO-{place[event] % 7:03d}\t\t13\t\t\t"
            f"Place {place[event]}\tL{before // _BLOCK * _BLOCK + place[event]}\tH\t{lat[event]:.7f}\t"
            f"{lon[event]:.7f}\t{when}\t{clock}\tobsr{whose[i]}\t\tS{100000 + before + i}\t{name}\t{name}\t"
            f"P{code}\teBird\t\t"
            f"{minutes[event] if timed else ''}\t{kilometres[event] if walked else ''}\t\t"
            f"{observers[event] if timed else ''}\t{complete[event]}\t{f'G{group}' if group else ''}"
        )
        records = []
        for j in np.flatnonzero(is_seen[event]):
            # A member of a group may not have seen all that the others saw.
            if event != i and manner[i, j] < 0.1:
                continue
            count = "X" if manner[event, j] > 0.93 else str(counts[event, j])
            records.append((species.taxa[j], count))
            if manner[event, j] > 0.97:
                records.append((species.subspecies[j], count))
        if has_spuh[event]:
            records.append(("9000\tspuh\tavibase-00009000\tbird sp.\tAves sp.\t\t\t", "3"))
        yield shared, records
