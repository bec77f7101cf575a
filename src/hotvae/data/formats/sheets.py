"""Workbooks: a sheet of an ``.xlsx`` file as a table. Needs openpyxl, of the extra ``geo``."""

from pathlib import Path

import pandas as pd

from hotvae.config import require_module
from hotvae.data.dataset import close_names
from hotvae.data.formats.foreign import check_archive
from hotvae.errors import DataError, listed, option


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
        names = [str(name) for name in book.sheetnames]
    finally:
        book.close()
    chosen = chosen_part(names, sheet, "sheet", path)
    frame = pd.read_excel(path, sheet_name=chosen, engine="openpyxl")
    frame = frame.dropna(how="all")
    empty = [name for name in frame.columns if str(name).startswith("Unnamed: ") and bool(frame[name].isna().all())]
    return frame.drop(columns=empty).reset_index(drop=True)


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
