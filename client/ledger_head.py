"""The head file: the last event's number and hash, kept off the ledger's volume.

A ledger that was restored from an older copy is whole in itself; only what remembers how far it
had come can tell. The file is one line, `COUNT:HASH`.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from client.ledger_chain import Head
from common.errors import InputError


def read_head(path: Path | None) -> str | None:
    """What the head file says; None where there is no such file.

    Raises:
        InputError: it cannot be read.
    """
    if path is None:
        return None
    try:
        return path.read_text(encoding="ascii", errors="replace").strip()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise InputError(f"head {path} cannot be read: {error}") from error


def write_head(path: Path, head: Head) -> None:
    """Replace the head file in one move that outlasts a power cut.

    Raises:
        InputError: it cannot be written.
    """
    try:
        with tempfile.NamedTemporaryFile("w", dir=path.parent, prefix=".head-",
                                         delete=False) as file:
            file.write(f"{head}\n")
            file.flush()
            os.fsync(file.fileno())
        os.replace(file.name, path)
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
    except OSError as error:
        raise InputError(f"head {path} cannot be written: {error}; allowed: a file in an existing "
                         "folder, best on another volume than the ledger") from error
