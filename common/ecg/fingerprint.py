"""The content of a hospital's files as one digest: the same bytes, the same store.

Reading gigabytes at every start would be slow, so a file's digest is remembered beside the stores
together with its size, its times and its inode: the change time moves with every write, whoever
sets the modification time back.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

_CACHE = "digests.json"


def fingerprint(files: Mapping[str, Path], directory: Path) -> str:
    """SHA-256 over the names and contents of files.

    Args:
        files: the name that counts and where the file lies.
        directory: where digests are remembered.
    """
    known = _load(directory / _CACHE)
    digest, changed = hashlib.sha256(), False
    for name in sorted(files):
        path = files[name]
        try:
            state = path.stat()
            stamp = [state.st_size, state.st_mtime_ns, state.st_ctime_ns, state.st_ino]
            kept = known.get(str(path))
            if kept is None or kept[:4] != stamp:
                with path.open("rb") as stream:
                    sha = hashlib.file_digest(stream, "sha256").hexdigest()
                known[str(path)], changed = [*stamp, sha], True
            content = str(known[str(path)][4])
        except OSError as error:  # a dangling link: reading the record will say so
            content = str(error.strerror)
        digest.update(f"{name}\0{content}\n".encode())
    if changed:
        _save(directory / _CACHE, known)
    return digest.hexdigest()


def _load(file: Path) -> dict[str, Sequence[object]]:
    try:
        found = json.loads(file.read_text())
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def _save(file: Path, known: Mapping[str, Sequence[object]]) -> None:
    """Best effort: without it the next start reads the files again."""
    fresh = file.with_name(f"{file.name}.{os.getpid()}")
    with suppress(OSError):
        file.parent.mkdir(parents=True, exist_ok=True)
        fresh.write_text(json.dumps(known))
        fresh.replace(file)
