"""What eBird files hold, found out slowly: plain Python, one line after the other."""

import re
from collections import defaultdict
from datetime import date


def lines_of(path):
    with open(path, encoding="utf-8", newline="\n") as file:
        names = file.readline().rstrip("\r\n").split("\t")
        for line in file:
            yield dict(zip(names, line.rstrip("\r\n").split("\t"), strict=True))


def number(text):
    return None if text == "" else float(text)


def within(value, limits):
    return limits is None or (value is not None and limits[0] <= value <= limits[1])


def counts(line, *, bounds=None, months=(), protocols=(), hours=None, kilometres=None, observers=None, speed=None):
    """Whether a line passes the filters; it must be of a complete checklist."""
    minutes, km = number(line["DURATION MINUTES"]), number(line["EFFORT DISTANCE KM"])
    if line["PROTOCOL NAME"] == "Stationary":
        km = km or 0.0
    if bounds is not None:
        west, south, east, north = bounds
        if not (west <= float(line["LONGITUDE"]) <= east and south <= float(line["LATITUDE"]) <= north):
            return False
    return (
        line["ALL SPECIES REPORTED"] == "1"
        and (not months or date.fromisoformat(line["OBSERVATION DATE"]).month in months)
        and (not protocols or line["PROTOCOL NAME"] in protocols)
        and within(None if minutes is None else minutes / 60, hours)
        and within(km, kilometres)
        and within(number(line["NUMBER OBSERVERS"]), observers)
        and within(None if km is None or not minutes else km * 60 / minutes, speed)
    )


def checklists_of(sampling, **filters):
    """First member of every checklist by its id."""
    members = defaultdict(list)
    for line in lines_of(sampling):
        if counts(line, **filters):
            event = line["SAMPLING EVENT IDENTIFIER"]
            members[line["GROUP IDENTIFIER"] or event].append((event, line))
    return {name: min(found, key=lambda pair: pair[0])[1] for name, found in members.items()}


def detections_of(ebd, **filters):
    """The count of every species on every checklist; None for X."""
    forms = defaultdict(list)
    for line in lines_of(ebd):
        if counts(line, **filters) and re.fullmatch(r"[A-Z][a-z]+ [a-z]+", line["SCIENTIFIC NAME"]):
            event = line["SAMPLING EVENT IDENTIFIER"]
            key = line["GROUP IDENTIFIER"] or event, line["SCIENTIFIC NAME"], event
            forms[key].append(line["OBSERVATION COUNT"])
    members = defaultdict(list)
    for (checklist, species, _), found in forms.items():
        unknown = any(count in ("", "X") for count in found)
        members[checklist, species].append(None if unknown else sum(map(int, found)))
    seen = {}
    for key, found in members.items():
        if any(count is None or count > 0 for count in found):
            seen[key] = max((count for count in found if count), default=None)
    return seen
