"""Workbooks: a sheet of an ``.xlsx`` file as a table. Needs openpyxl, of the extra ``geo``."""

from pathlib import Path
from typing import Any

import pandas as pd
from pandas.io.parsers import TextParser  # type: ignore[attr-defined]  # the stubs lack it

from hotvae.config import require_module
from hotvae.data.dataset import close_names
from hotvae.data.formats.foreign import check_archive
from hotvae.errors import DataError, listed, option

# What the standard of workbooks allows. A larger number of a row is damage, and all rows up to it would be made.
_MOST_ROWS = 1_048_576


def read_sheet(path: Path, sheet: str | None = None) -> pd.DataFrame:
    """Read a sheet; rows and columns without any cell are passed over.

    Parameters
    ----------
    path : Path
        The workbook.
    sheet : str, optional
        Name of the sheet; needed where there are several.

    Returns
    -------
    DataFrame

    Raises
    ------
    DataError
        A damaged workbook, or a sheet that is not there or not named.
    """
    openpyxl = require_module("openpyxl", "read workbooks", "geo")
    with path.open("rb") as file:
        check_archive(file, path)
    book = openpyxl.load_workbook(path, read_only=True, data_only=True)
    try:
        chosen = chosen_part([str(part.title) for part in book.worksheets], sheet, "sheet", path)
        rows = _rows(book[chosen], path)
    finally:
        book.close()
    if not rows:
        return pd.DataFrame()
    frame: pd.DataFrame = TextParser(rows, header=0).read()  # what pandas makes of cells, numbers, gaps and names
    frame = frame.dropna(how="all")
    empty = [name for name in frame.columns if str(name).startswith("Unnamed: ") and bool(frame[name].isna().all())]
    return frame.drop(columns=empty).reset_index(drop=True)


def _rows(sheet: Any, path: Path) -> list[list[Any]]:
    """Read the rows that have a cell, all of one width."""
    sheet.reset_dimensions()  # what a file says of its size may be wrong
    rows = []
    for number, cells in enumerate(sheet.rows, 1):
        if number > _MOST_ROWS:
            raise DataError(
                f"sheet must have at most {_MOST_ROWS:,} rows; got one beyond them ({path.name}, {sheet.title!r}). "
                "Save the workbook anew, or take CSV or Parquet for a longer table."
            )
        values = [_value(cell) for cell in cells]
        if any(value != "" for value in values):
            rows.append(values)
    width = max(map(len, rows), default=0)
    return [values + [""] * (width - len(values)) for values in rows]


def _value(cell: Any) -> Any:
    """Return what a cell says; a whole number as such, and nothing for a formula that failed."""
    if cell.value is None:
        return ""
    if cell.data_type == "e":
        return float("nan")
    if cell.data_type == "n" and isinstance(cell.value, float) and cell.value.is_integer():
        return int(cell.value)
    return cell.value


def chosen_part(names: list[str], wanted: str | None, what: str, path: Path) -> str:
    """Choose a sheet or layer: the one that is named, or the only one."""
    if wanted is not None and wanted in names:
        return wanted
    if wanted is not None:
        raise DataError(
            f"{what} must be in the file; got {wanted!r}{close_names([wanted], names)} ({path.name} has "
            f"{listed(names, 20)}). Check the spelling."
        )
    if len(names) != 1:
        raise DataError(
            f"{what} must be named where there are several; got {listed(names, 20)} ({path.name}). "
            f"Name one: {option('sheet', 'NAME')}."
        )
    return names[0]
