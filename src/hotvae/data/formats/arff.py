"""ARFF, the text format of many multi-label collections: dense and sparse rows, numbers and named levels.

Libraries read less: scipy neither text columns nor sparse rows, liac-arff (last released in 2020) neither dates nor a
file without ``@relation``, and its messages do not name the column.
"""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy import sparse

from hotvae.errors import DataError, listed

_ARFF_ATTRIBUTE = re.compile(r"""@attribute\s+('(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|[^\s{]+)\s*(.*)""", re.IGNORECASE)
_ARFF_NUMERIC = ("numeric", "real", "integer")
# A quoted part, a word (a quote inside it is a letter like any other), blanks, or a comma. Each begins with another
# character, so that the text is read once, from left to right.
_ARFF_TOKEN = re.compile(r"""'(?:[^'\\]|\\.)*+'|"(?:[^"\\]|\\.)*+"|[^\s,'"][^\s,]*+|\s++|,""")


@dataclass(frozen=True)
class _Attribute:
    """One column of an ARFF file; `levels` is None for numbers and empty for free text."""

    name: str
    levels: tuple[str, ...] | None

    def value(self, field: str) -> float | str | None:
        """Read one field; ValueError says what is wrong with it."""
        if field == "?":
            return None
        field = _unquoted(field)
        if self.levels is None:
            try:
                return float(field)
            except ValueError:
                raise ValueError(f"column {self.name!r} must hold numbers; got {field!r}") from None
        if self.levels and field not in self.levels:
            raise ValueError(f"column {self.name!r} must hold one of {listed(self.levels)}; got {field!r}")
        return field


def _unquoted(field: str) -> str:
    field = field.strip()
    if len(field) > 1 and field[0] == field[-1] and field[0] in "'\"":
        return re.sub(r"\\(.)", r"\1", field[1:-1])
    return field


def _split(text: str) -> list[str]:
    """Split at commas outside of quotes; ValueError where a quote begins a word and nothing ends it."""
    if "'" not in text and '"' not in text:
        return [field.strip() for field in text.split(",")]
    starts, place = [0], 0
    while place < len(text):
        token = _ARFF_TOKEN.match(text, place)
        if token is None:
            raise ValueError(f"a quote must have its pair; got {text[place : place + 60]!r}")
        place = token.end()
        if token[0] == ",":
            starts.append(place)
    return [text[start : end - 1].strip() for start, end in zip(starts, [*starts[1:], len(text) + 1], strict=True)]


def _attribute(line: str) -> _Attribute:
    match = _ARFF_ATTRIBUTE.fullmatch(line)
    if match is None:
        raise ValueError(f"an attribute must read '@attribute name type'; got {line[:60]!r}")
    name, kind = _unquoted(match[1]), match[2].strip()
    if kind.startswith("{") and kind.endswith("}"):
        return _Attribute(name, tuple(_unquoted(level) for level in _split(kind[1:-1])))
    word = kind.split()[0].lower() if kind else ""
    if word in _ARFF_NUMERIC:
        return _Attribute(name, None)
    if word in ("string", "date"):
        return _Attribute(name, ())
    raise ValueError(f"attribute {name!r} must be numeric, nominal, string or date; got {kind!r}")


def parse_arff(text: str, source: Path) -> pd.DataFrame:
    r"""Read the text of an ARFF file, with dense or sparse rows.

    Parameters
    ----------
    text : str
        The whole file.
    source : Path
        Its name, for messages.

    Returns
    -------
    DataFrame
        Sparse when rows are sparse and all columns are numbers; nominal 0/1 and FALSE/TRUE columns become numbers.

    Raises
    ------
    DataError
        A line that does not fit, named by its number.
    """
    attributes: list[_Attribute] = []
    rows: list[dict[int, float | str | None]] = []
    in_data = any_sparse = False
    number = 0
    try:
        for raw_line in text.split("\n"):
            number += 1
            line = raw_line.strip()
            word = line.split(None, 1)[0].lower() if line else ""
            if not line or line.startswith("%") or (word == "@relation" and not in_data):
                continue
            if in_data:
                any_sparse |= line.startswith("{")
                rows.append(_arff_row(line, attributes))
            elif word == "@attribute":
                attributes.append(_attribute(line))
            elif word == "@data":
                in_data = True
            else:
                raise ValueError(f"the header must hold @relation, @attribute and @data; got {line[:60]!r}")
    except ValueError as error:
        raise DataError(f"{error} (line {number} of {str(source)!r}). Correct this line.") from None
    if not in_data or not attributes:
        raise DataError(f"ARFF must have @attribute and @data lines; got neither or one of them ({str(source)!r}).")
    check_unique_columns([attribute.name for attribute in attributes], source)
    return _arff_frame(attributes, rows, any_sparse)


def _arff_row(line: str, attributes: list[_Attribute]) -> dict[int, float | str | None]:
    """Read one data line, dense or sparse, into {column: value}."""
    if not line.startswith("{"):
        fields = _split(line)
        if len(fields) != len(attributes):
            raise ValueError(f"rows must have {len(attributes)} fields; got {len(fields)}")
        return {i: attributes[i].value(field) for i, field in enumerate(fields)}
    if not line.endswith("}") or "}" in line[:-1]:
        raise ValueError(f"a sparse row must be one pair of braces, without weight; got {line[:60]!r}")
    row: dict[int, float | str | None] = {}
    for entry in _split(line[1:-1]) if line[1:-1].strip() else []:
        index, _, field = entry.partition(" ")
        if not index.isdigit() or int(index) >= len(attributes) or int(index) in row:
            raise ValueError(
                f"sparse entries must be 'column value', columns 0 to {len(attributes) - 1}; got {entry!r}"
            )
        row[int(index)] = attributes[int(index)].value(field)
    return row


def _arff_frame(
    attributes: list[_Attribute], rows: list[dict[int, float | str | None]], any_sparse: bool
) -> pd.DataFrame:
    names = [attribute.name for attribute in attributes]
    # Nominal {0, 1} and {FALSE, TRUE} are taken as numbers, so that they can be labels and stay sparse.
    numbers = [_arff_numbers(attribute) for attribute in attributes]
    # What a sparse row leaves out is 0, or the first level of a nominal attribute.
    omitted = [attribute.levels[0] if attribute.levels else None for attribute in attributes]
    if any_sparse and all(
        codes is not None and (codes.get(first, 0.0) if first is not None else 0.0) == 0.0
        for codes, first in zip(numbers, omitted, strict=True)
    ):
        entries = [(i, j, _number(value, numbers[j])) for i, row in enumerate(rows) for j, value in row.items()]
        values = np.array([value for _, _, value in entries], dtype=np.float64)
        places = np.array([(i, j) for i, j, _ in entries], dtype=np.intp).reshape(-1, 2)
        if not np.isnan(values).any():
            matrix = sparse.coo_array((values, (places[:, 0], places[:, 1])), shape=(len(rows), len(names)))
            accessor: Any = pd.DataFrame.sparse
            frame: pd.DataFrame = accessor.from_spmatrix(matrix.tocsc(), columns=names)
            return frame
    columns: dict[str, Any] = {}
    for j, (attribute, codes) in enumerate(zip(attributes, numbers, strict=True)):
        default = 0.0 if attribute.levels is None else omitted[j]
        cells = [row.get(j, default) for row in rows]
        if codes is not None:
            columns[attribute.name] = np.array([_number(cell, codes) for cell in cells], dtype=np.float64)
        elif attribute.levels:
            columns[attribute.name] = pd.Categorical(cells, categories=list(attribute.levels))
        else:
            columns[attribute.name] = pd.Series(cells, dtype=object)
    return pd.DataFrame(columns, columns=pd.Index(names))


def _arff_numbers(attribute: _Attribute) -> dict[str, float] | None:
    """Numbers of the levels of a 0/1 or FALSE/TRUE attribute; empty for numeric, None for the others."""
    if attribute.levels is None:
        return {}
    codes = {"0": 0.0, "1": 1.0, "false": 0.0, "true": 1.0}
    if attribute.levels and all(level.lower() in codes for level in attribute.levels):
        return {level: codes[level.lower()] for level in attribute.levels}
    return None


def _number(value: float | str | None, codes: dict[str, float] | None) -> float:
    if value is None:
        return np.nan
    return codes[value] if codes and isinstance(value, str) else float(value)


def check_unique_columns(names: list[str], source: Path) -> None:
    """Refuse a table with two columns of one name."""
    repeated = pd.Index(names)[pd.Index(names).duplicated()].unique()
    if len(repeated):
        raise DataError(
            f"column names must be unique; got duplicate {listed(repeated)} in {str(source)!r}. Rename one."
        )
