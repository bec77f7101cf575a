"""Make coastline.npz and borders.npz of src/hotvae/report: the land of the world and its countries, small to ship.

Source: Natural Earth, land and countries at 1:50 million (public domain, naturalearthdata.com), as packed in the npm
package world-atlas 2.0.2 (land-50m.json and countries-50m.json, TopoJSON). Run with

    npm pack world-atlas@2.0.2 && tar xzf world-atlas-2.0.2.tgz
    python docs/make_coastline.py package/land-50m.json package/countries-50m.json

Coordinates are rounded to a hundredth of a degree (about a kilometre) and stored as differences from point to
point, which zip to a fifth of the original.
"""

import json
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from hotvae.report.coastline import _cut

STEPS_PER_DEGREE = 100
TARGET = Path(__file__).parents[1] / "src" / "hotvae" / "report"


def rings_of(topology: dict[str, Any]) -> Iterator[np.ndarray]:
    """Every ring of every polygon, as an array of (longitude, latitude)."""
    scale, shift = (np.array(topology["transform"][name]) for name in ("scale", "translate"))
    arcs = [np.cumsum(arc, axis=0) * scale + shift for arc in topology["arcs"]]
    for geometry in topology["objects"]["land"]["geometries"]:
        polygons = [geometry["arcs"]] if geometry["type"] == "Polygon" else geometry["arcs"]
        for polygon in polygons:
            for ring in polygon:
                # A negative number is an arc walked backwards; neighbouring arcs share a point.
                parts = [arcs[number] if number >= 0 else arcs[~number][::-1] for number in ring]
                yield np.concatenate([parts[0], *(part[1:] for part in parts[1:])])


def flat(ring: np.ndarray) -> Iterator[np.ndarray]:
    """Turn a ring on the globe into rings between -180 and 180 degrees.

    The source has no cut at the date line: its Eurasia jumps from 180 to -180 degrees, and its Antarctica goes once
    around the pole.
    """
    turns = np.cumsum(np.round(np.diff(ring[:, 0], prepend=ring[0, 0]) / 360))
    ring = ring - np.column_stack([360 * turns, np.zeros(len(ring))])
    if abs(ring[-1, 0] - ring[0, 0]) > 180:
        # Points along the pole keep every step within 16 bits.
        along = np.linspace(ring[-1, 0], ring[0, 0], 9)
        ring = np.concatenate([ring, np.column_stack([along, np.full(9, -90.0)]), ring[:1]])
    for shift in (-360, 0, 360):
        moved = ring + np.array([shift, 0.0])
        if moved[:, 0].max() > -180 and moved[:, 0].min() < 180:
            yield _cut(moved, (-180, -90, 180, 90))


def borders_of(topology: dict[str, Any]) -> Iterator[np.ndarray]:
    """Every line between two countries: arcs that two outlines share."""
    scale, shift = (np.array(topology["transform"][name]) for name in ("scale", "translate"))
    used: Counter[int] = Counter()
    for geometry in topology["objects"]["countries"]["geometries"]:
        polygons = [geometry["arcs"]] if geometry["type"] == "Polygon" else geometry["arcs"]
        used.update({arc if arc >= 0 else ~arc for polygon in polygons for ring in polygon for arc in ring})
    for number, count in sorted(used.items()):
        if count > 1:
            yield np.cumsum(topology["arcs"][number], axis=0) * scale + shift


def write(lines: Iterable[np.ndarray], target: Path, least: int) -> None:
    """Round lines, leave those of fewer points out, and say how large the result is."""
    kept = []
    for line in lines:
        points = np.round(line * STEPS_PER_DEGREE).astype(np.int64)
        points = points[np.append(True, (np.diff(points, axis=0) != 0).any(axis=1))]
        if len(points) >= least:
            kept.append(points)
    points = np.concatenate(kept)
    steps = np.diff(points, axis=0, prepend=0)
    # A step from line to line may span the globe, beyond 16 bits: every line starts anew.
    starts = np.cumsum([0] + [len(line) for line in kept])[:-1]
    steps[starts] = points[starts]
    if np.abs(steps).max() > np.iinfo(np.int16).max:
        sys.exit("a step does not fit into 16 bits")
    np.savez_compressed(
        target,
        steps=np.ascontiguousarray(steps.T.astype(np.int16)),
        lengths=np.array([len(line) for line in kept], dtype=np.int32),
    )
    print(f"{target.name}: {len(kept)} lines, {len(points)} points, {target.stat().st_size / 1000:.0f} kB")


def main(land: str, countries: str) -> None:
    """Convert both."""
    topology = json.loads(Path(land).read_text(encoding="utf-8"))
    write((part for whole in rings_of(topology) for part in flat(whole)), TARGET / "coastline.npz", 4)
    write(borders_of(json.loads(Path(countries).read_text(encoding="utf-8"))), TARGET / "borders.npz", 2)


if __name__ == "__main__":
    main(*sys.argv[1:])
