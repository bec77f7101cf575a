"""Write the tables of docs/data.md from the catalogue and the sets on this machine.

Run it as ``python docs/make_data.py``; with ``--check`` it only says whether the page is up to date. Sets that are not
on this machine keep the numbers the page has.
"""

import re
import sys
from pathlib import Path

from hotvae.data.catalog import PACKAGED, Entry, catalog_names, compare_with_paper, describe, find_file, load
from hotvae.errors import DataError

PAGE = Path(__file__).with_name("data.md")
BEGIN, END = "<!-- begin {}: written by docs/make_data.py -->\n", "<!-- end {} -->"
PLACES = {True: "`hotvae data get`", False: "data folder"}


def overview(old: str) -> str:
    """Make one line per set."""
    lines = ["| name | rows | features | labels | kind | from |", "|---|---|---|---|---|---|"]
    for name in catalog_names():
        entry = describe(name)
        features = "" if entry.features in ("text", "smiles") else f"{entry.shape[1]}"
        place = "your own file" if entry.own else PLACES[entry.archive is not None]
        place = "the package" if (PACKAGED / entry.file).is_file() else place
        shape = f"{entry.shape[0] or '?'} | {features} | {entry.shape[2]}"
        lines.append(f"| `{name}` | {shape} | {entry.features} | {place} |")
    return "\n".join(lines) + "\n"


def table_1(old: str) -> str:
    """Put the paper's numbers beside ours; rows of sets that are not here are taken from the old page."""
    kept = {name: line for line, name in re.findall(r"^(\| `(\w+)` \|.*)$", old, flags=re.MULTILINE)}
    head = [
        "| set | labels per sample: mean | median | max | samples per label: mean | median | max |",
        "|---|---|---|---|---|---|---|",
    ]
    lines, reasons = [], []
    for name in catalog_names():
        entry = describe(name)
        if entry.paper is None:
            continue
        try:
            find_file(entry)
        except DataError:
            lines.append(kept.get(name, absent(entry)))
        else:
            cells = []
            for row in compare_with_paper(load(name)):
                ours = f"{row.ours:.2f}".rstrip("0").rstrip(".")
                cells.append(f"{row.paper} = {ours}" if row.is_met else f"{row.paper} ≠ {ours}")
            lines.append(f"| `{name}` | {' | '.join(cells)} |")
        for why in dict.fromkeys(entry.paper.reasons.values()):
            reasons.append(f"* `{name}`, {which(entry, why)}: {why}")
    return "\n".join([*head, *lines, "", *reasons]) + "\n"


def absent(entry: Entry) -> str:
    """Make a line of the paper's numbers alone."""
    return f"| `{entry.name}` | {' | '.join((*entry.paper.labels_per_sample, *entry.paper.samples_per_label))} |"


def which(entry: Entry, why: str) -> str:
    """Name the statistics that share a reason."""
    kinds: dict[str, list[str]] = {}
    for statistic, reason in entry.paper.reasons.items():
        if reason == why:
            name, kind = statistic.split()
            kinds.setdefault(name.replace("_", " "), []).append(kind)
    return "; ".join(f"{name} ({', '.join(found)})" for name, found in kinds.items())


def details(old: str) -> str:
    """Make one section per set."""
    sections = []
    for name in catalog_names():
        entry = describe(name)
        source = entry.source
        if entry.archive is not None:
            source += f" ({entry.archive.registry} `{entry.archive.package}=={entry.archive.version}`, "
            source += f"{entry.archive.size / 1e6:.1f} MB)"
        facts = {
            "source": source,
            "licence": entry.licence,
            "citation": entry.citation,
            "split": entry.parts,
            "counted over": counted(entry),
            "notes": entry.notes,
        }
        lines = [f"### `{name}`: {entry.title}", ""]
        sections.append("\n".join(lines + [f"* {fact}: {text}" for fact, text in facts.items() if text]))
    return "\n\n".join(sections) + "\n"


def counted(entry: Entry) -> str:
    """Say which rows the numbers of Table 1 are compared over."""
    if entry.paper is None:
        return ""
    return (
        f"labels per sample over {entry.paper.labels_rows} rows, samples per label over {entry.paper.samples_rows} rows"
    )


def main() -> int:
    """Write the page, or compare it."""
    page = PAGE.read_text(encoding="utf-8")
    made = page
    for name, make in (("overview", overview), ("table 1", table_1), ("details", details)):
        begin, end = BEGIN.format(name), END.format(name)
        start, stop = made.index(begin) + len(begin), made.index(end)
        made = made[:start] + "\n" + make(made[start:stop]) + "\n" + made[stop:]
    if "--check" in sys.argv:
        if made != page:
            print("docs/data.md is out of date: python docs/make_data.py")
        return int(made != page)
    PAGE.write_text(made, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
