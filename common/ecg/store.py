"""A store: windows on disk with one index row each, which says whose they are and their part."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from common.ecg.beats import Beats, no_beats
from common.errors import InputError
from common.protocol import AGE_BANDS, PARTS, SEXES

FORMAT = 4  # part of a store's key: raise it when the numbers change
CHUNK = 1 << 24  # bytes copied at a time
_LOCK = "lock"
INDEX = np.dtype(
    [("patient", "<i4"), ("record", "<i4"), ("start", "<f8"), ("strict", "u1"), ("paper", "u1"),
     ("sex", "i1"), ("age", "i1"), ("part", "u1"), ("reserved", "?")]
)  # fmt: skip


class Store:
    """Windows on disk, [n, leads, length] in [0, 1], with an index row for each."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            self.info: dict[str, Any] = json.loads((path / "store.json").read_text())
            self.index: NDArray[Any] = np.load(path / "index.npy")
            self.windows: NDArray[np.float32] = np.load(path / "windows.npy", mmap_mode="r")
        except (OSError, ValueError, EOFError) as error:
            raise InputError(f"store is '{path}'; it cannot be opened: {error}") from None
        if self.index.dtype != INDEX or len(self.index) != len(self.windows):
            raise InputError(f"store is '{path}'; its index does not fit its windows")

    @classmethod
    def open(cls, path: Path) -> Store:
        """Open a store without loading its windows."""
        return cls(Path(path))

    def select(self, part: str | None = None, reserved: bool | None = None) -> NDArray[np.int64]:
        """Indices of the windows of one part, of reserved patients or of the others."""
        if part is not None and part not in PARTS:
            raise InputError(f"part is {part!r}; allowed is one of {', '.join(PARTS)}")
        keep = np.ones(len(self.index), dtype=bool)
        if part is not None:
            keep &= self.index["part"] == PARTS.index(part)
        if reserved is not None:
            keep &= self.index["reserved"] == reserved
        return np.flatnonzero(keep).astype(np.int64)

    def beats(self) -> Beats:
        """The annotated beats of every window; none where a record annotates none."""
        saved = np.load(self.path / "beats.npz")
        return Beats(saved["first"], saved["time"], saved["kind"])

    def labels(self, mode: str) -> NDArray[np.uint8]:
        """Masks of possible classes per window; `mode` is "strict" or "paper"."""
        if mode not in ("strict", "paper"):
            raise InputError(f"labels is {mode!r}; allowed is strict, paper")
        return np.asarray(self.index[mode], dtype=np.uint8)


def summary(index: NDArray[Any]) -> dict[str, dict[str, int]]:
    """Patients per sex and per age band."""
    rows = index[np.unique(index["patient"], return_index=True)[1]]
    found: dict[str, dict[str, int]] = {}
    for key, names in (("sex", SEXES), ("age", AGE_BANDS)):
        found[key] = {name: int((rows[key] == i).sum()) for i, name in enumerate(names)}
        found[key]["unknown"] = int((rows[key] < 0).sum())
    return found


def build_store(target: Path, fill: Callable[[Path], None]) -> Store:
    """The store at `target`; where there is none, `fill` writes it into a folder beside it.

    One process at a time builds a store; another waits and finds it built. What an interrupted
    one left in the folder is still there for the next `fill`.

    Raises:
        InputError: the disk refuses, or `fill` does, which empties its folder.
    """
    partial = target.parent / f".{target.name}.partial"
    try:
        with _lock(partial):
            if (target / "store.json").is_file():
                shutil.rmtree(partial, ignore_errors=True)
            else:
                try:
                    fill(partial)
                except InputError:
                    shutil.rmtree(partial, ignore_errors=True)
                    raise
                (partial / _LOCK).unlink()
                partial.rename(target)
    except OSError as error:
        raise InputError(f"store is '{target}'; it cannot be written: {error}") from None
    return Store.open(target)


def _lock(folder: Path) -> IO[str]:
    """Make a folder and wait for its lock, which ends when the file closes or the process dies."""
    while True:
        folder.mkdir(parents=True, exist_ok=True)
        try:
            lock = (folder / _LOCK).open("w")
        except FileNotFoundError:
            continue  # whoever held it finished just now and moved the folder away
        fcntl.lockf(lock, fcntl.LOCK_EX)  # not flock: worker processes must not inherit it
        here = folder / _LOCK
        if here.exists() and here.stat().st_ino == os.fstat(lock.fileno()).st_ino:
            return lock
        lock.close()


def finish_store(
    partial: Path,
    index: NDArray[Any],
    info: dict[str, Any],
    parts: Sequence[Path],
    shape: tuple[int, ...],
    beats: Beats | None = None,
) -> None:
    """Join the part files and write what describes them."""
    header = {"descr": "<f4", "fortran_order": False, "shape": (len(index), *shape)}
    with (partial / "windows.npy").open("wb") as out:
        np.lib.format.write_array_header_1_0(out, header)
        for part in parts:
            with part.open("rb") as source:
                shutil.copyfileobj(source, out, CHUNK)
            part.unlink()
    np.save(partial / "index.npy", index)
    beats = beats or no_beats(len(index))
    np.savez(partial / "beats.npz", first=beats.first, time=beats.time, kind=beats.kind)
    text = json.dumps({**info, "demographics": summary(index)}, indent=1)
    (partial / "store.json").write_text(text + "\n")
