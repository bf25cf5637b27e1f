"""The file of tokens that a hospital sends to the linkage agent, and the answer it gets.

The first line is `#` and a JSON object: format, version, study, site, token, key, and in an answer
the cap. The others are CSV with a header. Both are written whole or not at all.
"""

from __future__ import annotations

import csv
import io
import json
import os
import re
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from common.errors import InputError

VERSION = 1
TOKENS, DECISION = "fedrean-tokens", "fedrean-decision"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


@dataclass(frozen=True)
class Header:
    """What a file says of itself.

    Args:
        study: whose key it is; 1 to 64 letters, digits, . _ -
        site: hospital.
        token: of `common.linkage.tokens.TOKENS`.
        key: `key_id` of the key.
        sites: of an answer: hospitals that a person is kept at, at most.
    """

    study: str
    site: str
    token: str
    key: str
    sites: int = 0

    def __post_init__(self) -> None:
        for name in ("study", "site"):
            value = getattr(self, name)
            if not isinstance(value, str) or not _NAME.fullmatch(value):
                raise InputError(f"{name} is {value!r}; allowed are 1 to 64 letters, digits, . _ -")


def write(file: Path, kind: str, header: Header, columns: Sequence[str],
          rows: Iterable[Sequence[str]]) -> None:
    """Write a file of a kind, TOKENS or DECISION."""
    out = io.StringIO()
    out.write("#" + json.dumps({"format": kind, "version": VERSION, **asdict(header)}) + "\n")
    table = csv.writer(out, lineterminator="\n")
    table.writerow(columns)
    table.writerows(rows)
    write_text(file, out.getvalue())


def read(file: Path, kind: str, columns: Sequence[str]) -> tuple[Header, list[list[str]]]:
    """(header, rows) of a file.

    Raises:
        InputError: it cannot be read, is of another kind or version, or a row has other columns.
    """
    try:
        first, _, rest = file.read_text(encoding="utf-8").partition("\n")
        told = json.loads(first.removeprefix("#")) if first.startswith("#") else None
    except (OSError, ValueError) as error:
        raise InputError(f"file is '{file}'; it cannot be read: "
                         f"{getattr(error, 'strerror', None) or error}") from None
    if not isinstance(told, dict) or told.pop("format", None) != kind:
        raise InputError(f"file is '{file}', which is no {kind} file")
    version = told.pop("version", None)
    if version != VERSION:
        raise InputError(f"file is '{file}' of version {version!r}; allowed: {VERSION}")
    try:
        header = Header(**told)
    except TypeError:
        raise InputError(f"file is '{file}', whose first line has keys {', '.join(told)}; allowed: "
                         "study, site, token, key, sites") from None
    rows = list(csv.reader(io.StringIO(rest)))
    if not rows or rows[0] != list(columns):
        raise InputError(f"file is '{file}' with columns {rows[0] if rows else []}; allowed: "
                         f"{', '.join(columns)}")
    for number, row in enumerate(rows[1:], start=3):
        if len(row) != len(columns):
            raise InputError(f"file is '{file}', whose line {number} has {len(row)} values; "
                             f"allowed: {len(columns)}")
    return header, rows[1:]


def write_text(file: Path, text: str) -> None:
    """Whole or not at all."""
    part = file.with_name(f".{file.name}.part")
    try:
        part.write_text(text, encoding="utf-8")
        os.replace(part, file)
    except OSError as error:
        raise InputError(f"file is '{file}'; it cannot be written: {error.strerror}") from None
