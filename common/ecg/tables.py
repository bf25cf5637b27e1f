"""CSV tables of a hospital, by record: subjects and demographics."""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path

from common.errors import InputError

_RECORD_COLUMNS = ("record", "data_id", "id")


@lru_cache(maxsize=8)
def read_table(file: Path) -> dict[str, dict[str, str]]:
    """Rows of a CSV by record name; column names in lower case."""
    try:
        with file.open(newline="", encoding="utf-8-sig") as stream:
            rows = [
                {str(k).strip().lower(): str(v or "").strip() for k, v in row.items()}
                for row in csv.DictReader(stream)
            ]
    except (OSError, ValueError, csv.Error) as error:
        raise InputError(f"table is '{file}'; it cannot be read as CSV: {error}") from None
    if rows and not any(column in rows[0] for column in _RECORD_COLUMNS):
        raise InputError(f"table '{file}' needs a column {', '.join(_RECORD_COLUMNS)}")
    return {column(row, _RECORD_COLUMNS): row for row in rows}


def row_of(rows: Mapping[str, dict[str, str]], record: str) -> dict[str, str]:
    """The row of a record, by its path, its name, or its name without leading zeros."""
    last = Path(record).name
    for key in (record, last, last.lstrip("0")):
        if key in rows:
            return rows[key]
    return {}


def column(row: Mapping[str, str], names: Sequence[str]) -> str:
    """The first of the named cells that is not empty, or ""."""
    return next((row[name] for name in names if row.get(name)), "")
