"""The steps of a preparation, each a file of its own until the table is written: DuckDB on stages in a folder."""

import json
import os
import re
import shutil
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from hotvae.errors import ConfigError, DataError, listed
from hotvae.files import write_text
from hotvae.geo.ebird_effort import Clocks, effort_columns
from hotvae.geo.ebird_filters import DAMAGED, IS_SPECIES, Filters, line_query, quoted
from hotvae.geo.ebird_text import PieceReader, TextFile, damaged_line
from hotvae.geo.extras import geo_module

_KM_PER_DEGREE = 111.195
_ROWS_AT_ONCE = 32_768

# Counts of one member's forms: a number, or NULL for X. Those of the members: the largest number, X where none has one.
_SUM = f"CASE WHEN count(amount) < count(*) THEN NULL ELSE least(sum(amount), {2**63 - 1})::BIGINT END"
_MERGED = "nullif(max(n), 0)"
# Control characters, of which some end a line of the list of species.
_NO_TEXT = re.compile(r"[\x00-\x1f\x7f-\x9f]")
_IS_SEEN = "bool_or(n IS NULL OR n > 0)"


class Stages:
    """One preparation: a folder of finished stages beside the table, and DuckDB working on it."""

    def __init__(
        self,
        target: Path,
        memory: str,
        threads: int | None,
        piece_bytes: int,
        progress: Callable[[str, int, int | None], None],
    ) -> None:
        self.duckdb = geo_module("duckdb", "read eBird files")
        geo_module("tzfpy", "find time zones")  # before hours of work, not after
        self.folder = target.with_name(f".{target.name}.work")
        self.memory, self.threads, self.piece_bytes, self.progress = memory, threads, piece_bytes, progress
        self.n_train = self.n_test = 0

    @contextmanager
    def open(self, identity: str) -> Iterator[None]:
        """Work in the folder; what an equal run has left there is used, and all of it is removed at the end."""
        note = self.folder / "identity"
        if self.folder.exists() and not (note.is_file() and note.read_text(encoding="utf-8") == identity):
            shutil.rmtree(self.folder)
        self.folder.mkdir(exist_ok=True)
        write_text(note, identity)
        settings: dict[str, Any] = {"memory_limit": self.memory, "temp_directory": str(self.folder / "spill")}
        settings["preserve_insertion_order"] = "false"
        if self.threads is not None:
            settings["threads"] = self.threads
        self.connection = self.duckdb.connect(config=settings)
        try:
            yield
        except DataError:  # these files will not do, whatever is changed
            shutil.rmtree(self.folder)
            raise
        except self.duckdb.OutOfMemoryException as error:
            raise ConfigError(
                f"memory must hold what DuckDB works on; got too little with {self.memory} ({_first_line(error)}). "
                "Raise it; the run goes on where it was."
            ) from error
        except (self.duckdb.IOException, OSError) as error:
            raise ConfigError(
                f"disk must have room and be readable; got {_first_line(error)} (working in {str(self.folder)!r}). "
                "Make room; the run goes on where it was."
            ) from error
        finally:
            self.connection.close()
        shutil.rmtree(self.folder)

    def sql(self, query: str) -> Any:
        """Run a query."""
        return self.connection.execute(query)

    def rows(self, query: str) -> list[tuple[Any, ...]]:
        """Return all rows of a short answer."""
        return list(self.sql(query).fetchall())

    def file(self, name: str) -> Path:
        """Where a stage is."""
        return self.folder / f"{name}.parquet"

    def stage(self, name: str, query: str) -> None:
        """Write the answer to a file, unless an earlier run has."""
        if not self.file(name).exists():
            self.progress(name, 0, None)
            self.copy(query, self.file(name))

    def copy(self, query: str, target: Path, rows_in_a_group: int = 122_880) -> None:
        """Write the answer to a file, whole or not at all."""
        part = target.with_suffix(".part")
        how = f"FORMAT parquet, COMPRESSION snappy, ROW_GROUP_SIZE {rows_in_a_group}"
        self.sql(f"COPY ({query}) TO {quoted(str(part))} ({how})")
        part.replace(target)

    # Reading ----------------------------------------------------------------------------------------------

    def pieces(self, stage: str) -> str:
        """Return SQL for all lines of a file."""
        return f"read_parquet({quoted(str(self.folder / f'{stage}-*.parquet'))})"

    def kept(self, stage: str) -> str:
        """Return SQL for the lines of a file that have passed all filters."""
        return f"(SELECT * FROM {self.pieces(stage)} WHERE reason = 0)"

    def read(self, file: TextFile, stage: str, filters: Filters) -> tuple[int, dict[int, int]]:
        """Filter the lines of a file into pieces; return how many there are, and how many each filter has lost."""
        conditions = filters.conditions()
        is_ebd = stage == "observations"
        wanted = ["event", "complete", "latitude", "longitude", *(("scientific", "common", "count") if is_ebd else ())]
        wanted += ["protocol", "minutes", "kilometres", "date"]
        wanted += sorted({("country", "state", "county")[region.count("-")] for region in filters.regions})
        file.require(wanted + (["observers"] if filters.observers else []))
        query = line_query(file, list(conditions.values()), is_ebd)
        done = self.folder / f"{stage}.json"
        ends: list[int] = json.loads(done.read_text(encoding="utf-8"))["ends"] if done.exists() else []
        total = file.size()
        reader = PieceReader(file, self.folder, ends[-1] if ends else 0, self.piece_bytes)
        with reader.pieces(lambda at: self.progress(stage, at, total)) as pieces:
            for piece in pieces:
                target = self.folder / f"{stage}-{len(ends):05d}.parquet"
                self._read_piece(file, query.replace("@path", quoted(piece.path)), target, reader, piece.start)
                ends.append(reader.end)
                write_text(done, json.dumps({"ends": ends}))
        if not ends:
            raise DataError(f"eBird file must have lines below its header; got none ({file.name}). Download it again.")
        found = dict(self.rows(f"SELECT reason, count(*) FROM {self.pieces(stage)} GROUP BY reason"))
        return sum(found.values()), {reason: n for reason, n in found.items() if reason}

    def _read_piece(self, file: TextFile, query: str, target: Path, reader: PieceReader, start: int) -> None:
        try:
            self.copy(query, target, rows_in_a_group=500_000)  # fewer dictionaries of names
        except self.duckdb.Error as error:
            if isinstance(error, self.duckdb.OutOfMemoryException | self.duckdb.IOException):
                raise
            reason = damaged_line(file, start, reader.end + self.piece_bytes) or f"{_first_line(error)} ({file.name})"
        else:
            query = f"SELECT count(*) FROM read_parquet({quoted(str(target))}) WHERE reason = {DAMAGED}"
            if not self.rows(query)[0][0]:
                return
            target.unlink()
            reason = damaged_line(file, start, reader.end) or f"a line without a checklist ({file.name})"
        raise DataError(
            f"lines must have the fields of the header; got {reason}. The file is damaged: download it again."
        )

    # Checklists -------------------------------------------------------------------------------------------

    def merge_groups(self) -> None:
        """Make one checklist of all members of a group: the one whose id comes first as text stands for all."""
        columns = ("locality", "latitude", "longitude", "day", "time", "protocol", "minutes", "kilometres", "observers")
        firsts = ", ".join(f"first({column} ORDER BY event) AS {column}" for column in columns)
        lines = self.kept("sampling")
        repeated = self.rows(f"SELECT event FROM {lines} GROUP BY event HAVING count(*) > 1 ORDER BY event LIMIT 5")
        if repeated:
            raise DataError(
                f"checklists must stand once in the sampling file; got {listed(row[0] for row in repeated)} more than "
                "once. Were two files put together? Keep each line once."
            )
        self.stage(
            "checklists",
            f"""
            SELECT event AS checklist_id, event AS events, {", ".join(columns)}
            FROM {lines} WHERE group_id IS NULL
            UNION ALL
            SELECT group_id, string_agg(event, ',' ORDER BY event), {firsts}
            FROM {lines} WHERE group_id IS NOT NULL GROUP BY group_id
            """,
        )

    def choose_rows(self, thin_km: float | None, test_share: float, test_block_km: float | None, seed: int) -> None:
        """Give numbers to rows: for training from 0, then for a test; what is thinned away has none."""
        table = f"read_parquet({quoted(str(self.file('checklists')))})"
        n_all = self.rows(f"SELECT count(*) FROM {table}")[0][0]
        if n_all == 0:
            raise DataError("filters must leave a checklist; got 0. Widen them: the audit of a wider run says why.")
        is_test = "FALSE"
        if test_share:
            side = test_block_km or self._block_side(table)
            cell = _cell("latitude", "longitude", side)
            blocks = self.rows(f"""
                SELECT cell, n, sum(n) OVER (ORDER BY md5(cell || '/{seed}')) - n AS before
                FROM (SELECT {cell} AS cell, count(*) AS n FROM {table} GROUP BY 1) ORDER BY before
                """)
            # A block is taken where more than half of it fits in.
            taken = [cell for cell, n, before in blocks if before + n / 2 <= test_share * n_all] or [blocks[0][0]]
            if len(blocks) < 2 or len(taken) == len(blocks):
                raise ConfigError(
                    f"test_block_km must leave blocks to learn from; got {side:g} km, which makes {len(blocks)}. "
                    "Choose a smaller side."
                )
            is_test = f"{cell} IN ({', '.join(map(quoted, taken))})"
        is_kept = "TRUE"
        if thin_km is not None:
            cell = _cell("latitude", "longitude", thin_km)
            week = "year(day) * 100 + (dayofyear(day) - 1) // 7"
            lots = f"row_number() OVER (PARTITION BY is_test, {cell}, {week} ORDER BY md5(checklist_id || '/{seed}'))"
            is_kept = f"is_test OR {lots} = 1"
        self.stage(
            "rows",
            f"""
            SELECT *, CASE WHEN is_kept THEN row_number() OVER (
                          ORDER BY NOT is_kept, is_test, day, checklist_id) - 1 END AS number
            FROM (SELECT *, {is_kept} AS is_kept FROM (SELECT *, {is_test} AS is_test FROM {table}))
            ORDER BY number
            """,
        )
        found = self.rows(
            f"SELECT is_test, count(number) FROM read_parquet({quoted(str(self.file('rows')))}) GROUP BY 1"
        )
        self.n_train, self.n_test = dict(found).get(False, 0), dict(found).get(True, 0)

    def _block_side(self, table: str) -> float:
        """Side of squares of which about 50 cover the region, in km."""
        south, north, west, east = self.rows(
            f"SELECT min(latitude), max(latitude), min(longitude), max(longitude) FROM {table}"
        )[0]
        width = (east - west) * np.cos(np.radians((south + north) / 2)) * _KM_PER_DEGREE
        return float(max(np.sqrt(max(width, 1.0) * max((north - south) * _KM_PER_DEGREE, 1.0) / 50), 0.1))

    # Observations -----------------------------------------------------------------------------------------

    def check_counts(self) -> None:
        """Refuse counts that are neither a number nor X."""
        wrong = self.rows(f"SELECT DISTINCT odd FROM {self.kept('observations')} WHERE odd IS NOT NULL LIMIT 6")
        if wrong:
            raise DataError(
                "counts must be whole numbers from 0 to 2**63 - 1, X, or empty; got "
                f"{listed(sorted(row[0] for row in wrong))} (OBSERVATION COUNT). Use the file as it was downloaded."
            )

    def merged_observations(self) -> pd.DataFrame:
        """Return observations alone, by the groups that they name themselves."""
        self.check_counts()
        table: pd.DataFrame = self.sql(f"""
            WITH one AS (
                SELECT coalesce(group_id, event) AS checklist_id, event, scientific, min(common) AS common, {_SUM} AS n
                FROM {self.kept("observations")} WHERE {IS_SPECIES} GROUP BY checklist_id, event, scientific)
            SELECT checklist_id, scientific AS scientific_name, min(common) AS common_name,
                   {_MERGED} AS observation_count
            FROM one GROUP BY checklist_id, scientific HAVING {_IS_SEEN} ORDER BY ALL
            """).df()
        return table

    def match_observations(self, ebd: str, sampling: str) -> None:
        """Find the row of every observation; one without a checklist means that two releases were mixed."""
        self.check_counts()
        rows = f"read_parquet({quoted(str(self.file('rows')))})"
        self.stage(
            "names",
            f"""
            SELECT scientific, common, lines, is_species,
                   (row_number() OVER (ORDER BY NOT is_species, scientific) - 1)::INTEGER AS code
            FROM (SELECT scientific, min(common) AS common, count(*) AS lines, {IS_SPECIES} AS is_species
                  FROM {self.kept("observations")} GROUP BY scientific)
            """,
        )
        self.stage(
            "matched",
            f"""
            WITH member AS (
                SELECT number, is_kept, events AS event, 0 AS member FROM {rows} WHERE NOT contains(events, ',')
                UNION ALL
                SELECT number, is_kept, unnest(string_split(events, ',')),
                       unnest(range(1, len(string_split(events, ',')) + 1))::INTEGER
                FROM {rows} WHERE contains(events, ','))
            SELECT member.number, member.is_kept, member.member, names.code, line.amount,
                   CASE WHEN member.event IS NULL THEN line.event END AS stray
            FROM {self.kept("observations")} AS line
            JOIN (FROM read_parquet({quoted(str(self.file("names")))}) WHERE is_species) AS names USING (scientific)
            LEFT JOIN member ON member.event = line.event
            """,
        )
        matched = f"read_parquet({quoted(str(self.file('matched')))})"
        strays = self.rows(f"SELECT DISTINCT stray FROM {matched} WHERE stray IS NOT NULL ORDER BY stray LIMIT 5")
        if strays:
            n_strays = self.rows(f"SELECT count(DISTINCT stray) FROM {matched}")[0][0]
            raise DataError(
                f"every checklist of the EBD must be in the sampling file; got {n_strays} that are not, such as "
                f"{listed(row[0] for row in strays)} ({ebd}, {sampling}). The files are of two releases or regions: "
                "download both again, on one day."
            )

    def sum_detections(self) -> None:
        """Sum forms to species on the checklist of each member, and merge the members."""
        self.stage(
            "detections",
            f"""
            WITH line AS NOT MATERIALIZED (FROM read_parquet({quoted(str(self.file("matched")))}) WHERE is_kept),
            alone AS (
                SELECT number, code, {_SUM} AS n, count(*) AS lines FROM line WHERE member = 0 GROUP BY number, code),
            one AS (
                SELECT number, code, member, {_SUM} AS n, count(*) AS lines FROM line WHERE member > 0 GROUP BY ALL)
            FROM (
                SELECT number, code, nullif(n, 0) AS amount, n IS NULL OR n > 0 AS is_seen, lines, 1 AS members
                FROM alone
                UNION ALL
                SELECT number, code, {_MERGED}, {_IS_SEEN}, sum(lines)::BIGINT, count(*) FROM one GROUP BY number, code)
            ORDER BY number, code
            """,
        )

    def species(self, min_detections: int, names: str) -> pd.DataFrame:
        """Return all species and their detections; those that are frequent enough have a column."""
        found: pd.DataFrame = self.sql(f"""
            SELECT code, scientific AS scientific_name, common AS common_name,
                   count(number) FILTER (number < {self.n_train}) AS detections,
                   count(number) FILTER (number < {self.n_train} AND amount IS NULL) AS x, count(number) AS n_all
            FROM (FROM read_parquet({quoted(str(self.file("names")))}) WHERE is_species)
            LEFT JOIN (SELECT * FROM read_parquet({quoted(str(self.file("detections")))}) WHERE is_seen) USING (code)
            GROUP BY ALL ORDER BY scientific
            """).df()
        for name in pd.concat([found["scientific_name"], found["common_name"].fillna("")]):
            if _NO_TEXT.search(name):
                raise DataError(
                    f"names of species must be text; got {name!r}. The EBD is damaged: download it again, or remove "
                    "the lines of that species."
                )
        column = found["scientific_name"]
        if names == "common":
            common = found["common_name"].fillna("")
            is_alone = ~common.duplicated(keep=False) & (common != "")
            column = common.where(is_alone, common + " (" + column + ")")
        found["column"] = column.where(found["detections"] >= min_detections)
        if found["column"].isna().all():
            most = int(found["detections"].max()) if len(found) else 0
            raise ConfigError(
                f"a species must have at least {min_detections} detections to be a label; got {most} at most, on "
                f"{self.n_train} checklists. Ask for fewer detections, or widen the filters."
            )
        return found

    # The table --------------------------------------------------------------------------------------------

    def write(self, target: Path, species: pd.DataFrame, counts: bool) -> tuple[tuple[int, int], list[Path]]:
        """Write the tables; return their numbers of rows, and the files."""
        stem = target.with_suffix("")
        files = [target]
        self._write_rows(target, species, 0, self.n_train)
        if self.n_test:
            files.append(Path(f"{stem}-test.parquet"))
            self._write_rows(files[-1], species, self.n_train, self.n_train + self.n_test)
        if counts:
            files.append(Path(f"{stem}.counts.parquet"))
            codes = ", ".join(str(code) for code in species.loc[species["column"].notna(), "code"])
            part = self.folder / "counts.part"
            self.sql(f"""
                COPY (SELECT rows.checklist_id, names.scientific AS scientific_name, names.common AS common_name,
                             seen.amount AS observation_count
                      FROM read_parquet({quoted(str(self.file("detections")))}) AS seen
                      JOIN read_parquet({quoted(str(self.file("rows")))}) AS rows USING (number)
                      JOIN read_parquet({quoted(str(self.file("names")))}) AS names USING (code)
                      WHERE seen.is_seen AND code IN ({codes}) ORDER BY number, code)
                TO {quoted(str(part))} (FORMAT parquet)
                """)
            shutil.move(part, files[-1])
        return (self.n_train, self.n_test), files

    def _write_rows(self, target: Path, species: pd.DataFrame, start: int, end: int) -> None:
        import pyarrow
        import pyarrow.parquet

        kept = species[species["column"].notna()]
        place = np.full(int(species["code"].max()) + 1, -1)
        place[kept["code"].to_numpy()] = np.arange(len(kept))
        part = target.with_name(f".{target.name}.part")
        zones = Clocks()
        writer = None
        beside = ThreadPoolExecutor(1)  # squeezes and writes a part while the next is put together
        writing: Future[None] | None = None
        try:
            for first in range(start, end, _ROWS_AT_ONCE):
                last = min(first + _ROWS_AT_ONCE, end)
                within = f"number >= {first} AND number < {last}"
                rows = self.sql(
                    f"SELECT * FROM read_parquet({quoted(str(self.file('rows')))}) WHERE {within} ORDER BY number"
                ).df()
                seen = self.sql(
                    f"SELECT number, code FROM read_parquet({quoted(str(self.file('detections')))}) "
                    f"WHERE {within} AND is_seen"
                ).fetchnumpy()
                labels = np.zeros((len(kept), last - first), dtype=np.uint8)
                column = place[np.asarray(seen["code"])]
                labels[column[column >= 0], (np.asarray(seen["number"]) - first)[column >= 0]] = 1
                table = pyarrow.Table.from_pandas(effort_columns(rows, zones), preserve_index=False)
                for name, values in zip(kept["column"], labels, strict=True):
                    table = table.append_column(name, pyarrow.array(values))
                writer = writer or pyarrow.parquet.ParquetWriter(part, table.schema, compression="zstd")
                if writing is not None:
                    writing.result()
                writing = beside.submit(writer.write_table, table)
                self.progress("writing", last - start, end - start)
            beside.shutdown()
            if writing is not None:
                writing.result()
            if writer is not None:
                writer.close()
            with part.open("rb") as written:
                os.fsync(written.fileno())
            part.replace(target)
        finally:
            beside.shutdown()
            if writer is not None:
                writer.close()
            part.unlink(missing_ok=True)

    def audit(
        self,
        n_lines: int,
        lost_lines: dict[int, int],
        n_records: int,
        lost_records: dict[int, int],
        filters: Filters,
        species: pd.DataFrame,
        min_detections: int,
        thin_km: float | None,
    ) -> pd.DataFrame:
        """Say what each step has cost."""
        steps = list(filters.conditions())
        n_events, n_checklists, n_thinned = self.rows(f"""
            SELECT sum(len(string_split(events, ','))), count(*), count(*) FILTER (NOT is_kept)
            FROM read_parquet({quoted(str(self.file("rows")))})
            """)[0]
        first = _Account("checklists", "lines of the sampling file", n_lines)
        for number, step in enumerate(steps, start=1):
            first.lose(step, lost_lines.get(number, 0))
        first.lose("members of groups merged into one checklist", int(n_events) - n_checklists)
        if thin_km is not None:
            first.lose(f"one of each cell of {thin_km:g} km and week", n_thinned)
        if self.n_test:
            first.lose("set aside for a test", self.n_test)
        kept, merged, lines, seen = self.rows(f"""
            SELECT sum(lines), sum(members), count(*), count(*) FILTER (is_seen)
            FROM read_parquet({quoted(str(self.file("detections")))})
            """)[0]
        second = _Account("observations", "lines of the EBD", n_records)
        for number, step in enumerate(steps, start=1):
            second.lose(step, lost_records.get(number, 0))
        names = f"read_parquet({quoted(str(self.file('names')))})"
        no_species = self.rows(f"SELECT sum(lines) FROM {names} WHERE NOT is_species")[0][0]
        second.lose("not of a species (sp., slash, hybrid)", int(no_species or 0))
        if thin_km is not None:
            second.lose("on checklists that were thinned away", second.left - int(kept or 0))
        second.lose("forms summed to their species", int(kept or 0) - int(merged or 0))
        second.lose("same species of several members of a group", int(merged or 0) - lines)
        second.lose("counted as 0, an absence", lines - seen)
        rare = int(species.loc[species["column"].isna(), "n_all"].sum())
        n_rare = int(species["column"].isna().sum())
        second.lose(f"of {n_rare} species with fewer than {min_detections} detections", rare)
        return pd.DataFrame(first.steps + second.steps, columns=["table", "step", "lost", "left"])


class _Account:
    """A number that steps lower, and a line about each."""

    def __init__(self, table: str, step: str, n: int) -> None:
        self.table, self.left = table, n
        self.steps: list[tuple[str, str, int, int]] = [(table, step, 0, n)]

    def lose(self, step: str, n: int) -> None:
        self.left -= n
        self.steps.append((self.table, step, n, self.left))


def _cell(latitude: str, longitude: str, side_km: float) -> str:
    """Return SQL for the name of the cell of an equal-area grid that a place is in."""
    row = f"floor({latitude} * {_KM_PER_DEGREE / side_km!r})"
    middle = f"radians(({row} + 0.5) * {side_km / _KM_PER_DEGREE!r})"
    column = f"floor({longitude} * cos({middle}) * {_KM_PER_DEGREE / side_km!r})"
    return f"({row}::BIGINT || ':' || {column}::BIGINT)"


def _first_line(error: Exception) -> str:
    return str(error).strip().split("\n")[0] or type(error).__name__
