"""What may be asked of a served model, and its answers; all checks of rows are those of the command line."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field, StrictBool, StrictStr, ValidationError, WithJsonSchema
from pydantic_core import from_json, to_json

from hotvae.checkpoint import json_ready, load_folder
from hotvae.data.dataset import close_names
from hotvae.errors import DataError, listed
from hotvae.estimators.base import LabelClassifier
from hotvae.estimators.registry import model_of_folder
from hotvae.jobs.info import describe_loaded
from hotvae.jobs.predict import BestLists, Watch, predict_rows, require_labels, sample_rows
from hotvae.jobs.table_needs import TableNeeds, model_card
from hotvae.serve.desk import Refusal
from hotvae.serve.limits import Limits

_CELL = {"type": ["number", "string", "boolean", "null"]}
_RECORD = {"type": "object", "additionalProperties": _CELL}
_KINDS = frozenset({int, float, str, bool, type(None)})

Record = dict[str, Any]


class Question(BaseModel):
    """Rows, and what is known of their labels."""

    model_config = ConfigDict(extra="forbid")

    # What stands inside is checked as a table, column by column: a list of everything that is wrong with a million
    # cells would be longer than the cells.
    rows: Annotated[
        Any,
        WithJsonSchema({"type": "array", "items": _RECORD, "minItems": 1}),
        Field(description="A mapping of column names to values for each row; null is a missing value."),
    ]
    given: Annotated[
        Any,
        WithJsonSchema({"anyOf": [_RECORD, {"type": "array", "items": _RECORD}, {"type": "null"}]}),
        Field(description="Labels that are known: 1 present, 0 absent, null unknown. For all rows, or one for each."),
    ] = None
    ignore_unknown: Annotated[StrictBool, Field(description="Pass over columns that training did not know.")] = False


class SampleQuestion(Question):
    """Rows of which whole label sets are drawn."""

    n_draws: Annotated[int, Field(strict=True, ge=1, le=100_000, description="Label sets for each row.")] = 1
    seed: Annotated[int, Field(strict=True, ge=0, lt=2**32, description="The same seed gives the same draws.")] = 0


class DecideQuestion(Question):
    """Rows of which the best lists of labels are wanted."""

    objective: Annotated[
        StrictStr,
        Field(
            description="What the list should be best for: hamming, f1, jaccard, subset (the likeliest whole set), or "
            "a measure with a tuned threshold."
        ),
    ] = "f1"
    empty: Annotated[
        Literal[0, 1], Field(description="What an empty list counts where no label is present; for f1 and jaccard.")
    ] = 1
    n_draws: Annotated[
        int, Field(strict=True, ge=1, le=10_000, description="Draws of whole label sets that decide.")
    ] = 200


class Answer(BaseModel):
    """What all answers have."""

    labels: list[str]
    ids: list[str | int]
    warnings: list[str]


class Probabilities(Answer):
    """Probabilities of shape (row, label); labels that were given are 1 or 0."""

    probabilities: list[list[float]]


class Draws(Answer):
    """Whole label sets of shape (draw, row, label), 1 or 0."""

    draws: list[list[list[int]]]


class Lists(Answer):
    """For each row the names of the labels in its list."""

    lists: list[list[str]]


@dataclass(frozen=True, eq=False)
class Served:
    """A model in memory, and what there is to know of it.

    Attributes
    ----------
    model : LabelClassifier
        Fitted.
    needs : TableNeeds
        The columns of its rows.
    description : dict
        As ``hotvae info`` has it; no folders of this machine.
    limits : Limits
        What a question may ask for.
    """

    model: LabelClassifier
    needs: TableNeeds
    description: dict[str, Any]
    limits: Limits

    @classmethod
    def load(cls, folder: str | Path, limits: Limits) -> "Served":
        """Read a model folder, once."""
        stored, tensors = load_folder(folder)
        model = model_of_folder(folder, stored, tensors)
        description = describe_loaded(Path(folder).resolve().name, model, stored, tensors)
        return cls(model, TableNeeds.of_model(model), json_ready(description), limits)

    @property
    def labels(self) -> list[str]:
        """Names of the labels, or of the classes of a model that knows one kind of label only."""
        return [str(name) for name in (self.model.label_names_ if self.has_labels else self.model.classes_)]

    @property
    def has_labels(self) -> bool:
        """Whether the model knows a table of labels."""
        return self.model.target_ == "labels"

    def species(self) -> list[dict[str, Any]]:
        """Return each label with the share of training rows that have it, where training noted it."""
        shares = model_card(self.model).get("prevalence") or {}
        return [{"name": name, "prevalence": shares.get(name)} for name in self.labels]

    # Answers ----------------------------------------------------------------------------------------------

    def predict(self, asked: Question, between: Callable[[], None]) -> dict[str, Any]:
        """Probabilities of every label."""
        features, answer, given = self._read(asked, 1)
        between()
        return answer | {"probabilities": predict_rows(self.model, features, given, between).tolist()}

    def sample(self, asked: SampleQuestion, between: Callable[[], None]) -> dict[str, Any]:
        """Draws of whole label sets."""
        require_labels(self.model, "n_draws")
        features, answer, given = self._read(asked, asked.n_draws)
        drawn = []
        between()
        for block in sample_rows(self.model, features, asked.n_draws, asked.seed, given):
            drawn += block.tolist()
            between()
        return answer | {"draws": drawn}

    def decide(self, asked: DecideQuestion, between: Callable[[], None]) -> dict[str, Any]:
        """Best lists of labels."""
        wanted = BestLists(asked.objective, asked.empty, asked.n_draws)
        wanted.check(self.model)
        features, answer, given = self._read(asked, 1)
        names = np.array(self.labels, dtype=object)
        lists = wanted.of(self.model, features, given, between)
        return answer | {"lists": [names[row == 1].tolist() for row in lists]}

    def _read(self, asked: Question, n_tables: int) -> tuple[Any, dict[str, Any], NDArray[Any] | None]:
        """Return features, the beginning of an answer of so many tables, and given labels."""
        rows = _records("rows", asked.rows)
        self._check_size(rows, n_tables)
        frame = self.needs.read_rows(_frame_of("rows", rows))
        features, ids = self.needs.features_of(frame, ignore_unknown=asked.ignore_unknown, source="the request")
        given = None
        if asked.given:
            require_labels(self.model, "given")
            known = [asked.given] * len(rows) if isinstance(asked.given, dict) else asked.given
            records = _records("given", known)
            names = dict.fromkeys(name for record in records for name in record)
            self._check_columns("given", len(names))
            filled = [dict.fromkeys(names) | record for record in records]  # what one does not name is not known
            given = self.needs.read_given(_frame_of("given", filled), ids) if names else None
        watch = Watch(self.model, wanted=False)
        watch.look(features, None)
        answer = {"labels": self.labels, "ids": ids.tolist(), "warnings": list(watch.sentences())}
        return features, answer, given

    def _check_size(self, rows: list[Record], n_tables: int) -> None:
        self._check_columns("rows", len(rows[0]))
        _check_most("rows of a request", len(rows), self.limits.rows)
        _check_most("numbers of an answer", len(rows) * n_tables * len(self.labels), self.limits.cells)

    def _check_columns(self, what: str, n_columns: int) -> None:
        n_known = len(self.needs.features) + len(self.needs.ignored)
        _check_most(f"columns of {what}", n_columns, n_known + self.limits.columns)


def _check_most(what: str, size: int, most: int) -> None:
    if size > most:
        raise Refusal(413, f"{what} must be at most {most:,}; got {size:,}. Ask for less at a time.")


# From JSON to tables -------------------------------------------------------------------------------------------


def parsed(kind: type[Question], body: bytes) -> Any:
    """Read the body of a request.

    Raises
    ------
    Refusal
        No JSON (400), or something else than was described (422).
    """
    try:
        asked = from_json(body)
    except ValueError as error:
        raise Refusal(400, f"body must be JSON; got {error}. Correct it.") from None
    if not isinstance(asked, dict):
        raise Refusal(422, f'body must be a JSON object; got {_shown(asked)}. Put the rows under "rows".')
    fields = kind.model_fields
    unknown = [name for name in asked if name not in fields]
    if unknown:
        raise Refusal(
            422,
            f"body must have no other fields than {listed(fields, len(fields))}; got {listed(unknown)}"
            f"{close_names(unknown, fields)}. Remove them.",
        )
    try:
        return kind.model_validate(asked)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False)[0]
    name = str(first["loc"][0])
    if first["type"] == "missing":
        raise Refusal(422, f"{name} must be in the body; got {listed(asked) or 'nothing'}. Add it.")
    rule = first["msg"].removeprefix("Input should be ")
    raise Refusal(422, f"{name} must be {rule}; got {_shown(first['input'])}. Correct it.")


def _records(what: str, value: Any) -> list[Record]:
    """Return a list of mappings with an entry at least; others are refused."""
    if not isinstance(value, list) or not value:
        raise DataError(f"{what} must be a list with at least 1 row; got {_shown(value)}. Put each row into {{}}.")
    for number, record in enumerate(value):
        if not isinstance(record, dict):
            raise DataError(
                f'{what}[{number}] must map names to values; got {_shown(record)}. Write {{"name": value, ...}}.'
            )
    return value


def _frame_of(what: str, records: list[Record]) -> pd.DataFrame:
    """Put records into a table as a file would give it: a missing cell is NaN."""
    names = records[0].keys()
    for number, record in enumerate(records):
        if record.keys() != names:
            odd = sorted(record.keys() ^ names)
            raise DataError(
                f"{what} must all have the same columns; got {listed(odd)} in some ({what}[{number}] is unlike the "
                "first). Write null for a missing value."
            )
    frame = pd.DataFrame(
        {name: pd.Series(_cells(what, name, [record[name] for record in records])) for name in names},
        index=range(len(records)),
    )
    frame.attrs["name"] = what
    return frame


def _cells(what: str, name: str, values: list[Any]) -> list[Any]:
    """Return the cells of a column, NaN for missing ones; lists, objects and what is not finite are refused."""
    kinds = set(map(type, values))
    if not kinds <= _KINDS or not all(map(_is_finite, values) if kinds & {int, float} else ()):
        number = next(i for i, value in enumerate(values) if type(value) not in _KINDS or not _is_finite(value))
        raise DataError(
            f"{what}[{number}][{name!r}] must be a finite number, a text, true or false; got "
            f"{_shown(values[number])}. Write null for a missing value."
        )
    return [np.nan if value is None else value for value in values]


def _is_finite(value: Any) -> bool:
    """Say whether a number is one; whole numbers are as long as 64 bits have room for them."""
    if type(value) is int:
        return -(2**63) <= value < 2**63
    return type(value) is not float or math.isfinite(value)


def _shown(value: Any) -> str:
    """Return a value as it was sent, its beginning at least."""
    if isinstance(value, dict | list) and len(value) > 3:
        return f"{'an object' if isinstance(value, dict) else 'a list'} of {len(value):,}"
    text = to_json(value, inf_nan_mode="constants").decode()
    return text if len(text) <= 60 else f"{text[:57]}..."


def body_schema(kind: type[Question], served: Served) -> dict[str, Any]:
    """Describe the body of a request to this very model, for the OpenAPI."""
    schema = kind.model_json_schema()
    types = {"numeric": ["number", "null"], "categorical": ["string", "number", "null"]}
    columns = dict(zip(served.needs.features, (types[kind] for kind in served.needs.kinds), strict=True))
    schema["properties"]["rows"]["items"] = {
        "type": "object",
        "properties": {name: {"type": allowed} for name, allowed in columns.items()},
        "required": [name for name in columns if name not in served.needs.unused],
    }
    schema["properties"]["rows"]["maxItems"] = served.limits.rows
    schema.pop("description", None)
    return schema
