"""A store of the REAN paper's full size: opening it, its size, reading and training on it.

The same rows' worth of random batches is read through a bare np.memmap in turn. The file's pages
are dropped from the cache first, so the first reads come from the disk. Then a hospital trains the
smallest network (the tiny profile's ResNet) on random batches.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table

from client.hospital import Hospital
from client.ledger import Ledger
from client.local_round import LocalRound
from common.ecg.store import INDEX, Store, build_store, finish_store
from common.errors import InputError
from common.training import train
from server.overrides import compose_settings

PAPER = 1_163_983  # windows of all four databases
SHAPE = (1, 2000)  # leads, samples: 8 s at 250 Hz
MAX_OPEN_S, MAX_BYTES, MAX_ANON_BYTES = 1.0, 10e9, 2e9
_CHUNK = 4096  # windows written at a time


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--windows", type=int, default=PAPER)
    parser.add_argument("--batches", type=int, default=300, help="of each repeat")
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()),
                        help="where the store lies while this runs")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="fedrean-bench-", dir=arguments.folder) as folder:
        path = write(Path(folder) / "store", arguments.windows)
        forget(path)
        found = measure(path, arguments.batches, arguments.batch, arguments.repeats)
        show({**found, **train_on(path, Path(folder), arguments.batches, arguments.batch)})


def write(target: Path, windows: int) -> Path:
    """Write a store of random windows, one chunk repeated.

    Raises:
        InputError: no window, or too little free disk.
    """
    needed = windows * (4 * int(np.prod(SHAPE)) + INDEX.itemsize)
    free = shutil.disk_usage(target.parent).free
    if windows < 1 or needed > 0.9 * free:
        raise InputError(f"windows is {windows}, {needed / 1e9:.1f} GB; allowed is 1 or more, in "
                         f"90 % of the {free / 1e9:.1f} GB that are free in {target.parent}")
    index = np.zeros(windows, dtype=INDEX)
    index["patient"] = np.arange(windows) // _CHUNK
    index["part"] = np.arange(windows) % 20 // 14  # 70 % train
    index["strict"] = index["paper"] = 1 << np.arange(windows) % 4
    random = np.random.default_rng(0).random((_CHUNK, *SHAPE), dtype=np.float32)

    def fill(partial: Path) -> None:
        whole, rest = partial / "whole", partial / "rest"
        random.tofile(whole)
        random[: windows % _CHUNK].tofile(rest)
        parts = [partial / f"{i}.part" for i in range(windows // _CHUNK)]
        for part in parts:  # the store joins part files and removes each: links cost no disk
            os.link(whole, part)
        info = {"name": "benchmark", "patients": [str(i) for i in range(index["patient"][-1] + 1)]}
        finish_store(partial, index, info, [*parts, rest], SHAPE)
        whole.unlink()

    return build_store(target, fill).path


def forget(path: Path) -> None:
    """Drop the windows from the page cache."""
    with (path / "windows.npy").open("rb") as stream:
        os.fsync(stream.fileno())
        os.posix_fadvise(stream.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def measure(path: Path, batches: int, batch: int, repeats: int) -> dict[str, float]:
    """Seconds, bytes and windows a second; medians of alternating repeats."""
    started = time.perf_counter()
    store = Store.open(path)
    opened = time.perf_counter() - started
    rows = store.select("train", reserved=False)
    bare = np.lib.format.open_memmap(path / "windows.npy", mode="r")
    generator = np.random.default_rng()
    rates: dict[str, list[float]] = {"store": [], "bare memmap": []}
    for _ in range(repeats):
        for name, windows in (("store", store.windows), ("bare memmap", bare)):
            chosen = generator.choice(rows, (batches, batch))
            rates[name].append(chosen.size / _read(windows, chosen))
    return {"open": opened,
            "bytes": sum(file.stat().st_size for file in path.iterdir()),
            **{name: statistics.median(values) for name, values in rates.items()}}


def train_on(path: Path, folder: Path, batches: int, batch: int) -> dict[str, float]:
    """Windows a second that a hospital fetches and that the network trains on; bytes of RssAnon."""
    settings = compose_settings(["profile=tiny", "profile.sampling_rate=250"])
    hospital = Hospital("benchmark", Store.open(path), folder / "state",
                        Ledger(folder / "ledger.sqlite"), settings, "run")
    rows = hospital.usable("diagnosis")
    chosen = np.random.default_rng(1).choice(rows, (batches, batch))
    started = time.perf_counter()
    for some in chosen:
        hospital.fetch(some)
    fetched = time.perf_counter() - started
    network, ready = hospital.network("diagnosis"), hospital.fetch(chosen[0])
    local = LocalRound(network, hospital.fetch, hospital.loss("diagnosis", 1), len(rows),
                       settings.diagnosis, 1, 0, shift=False)
    optimizer, steps = local.optimizer(), max(1, batches // 10)
    started = time.perf_counter()
    train(network, optimizer, iter([chosen[0]] * steps), lambda _: ready, local.loss,
          local.schedule(steps))
    trained = time.perf_counter() - started
    train(network, optimizer, iter(chosen[:steps]), hospital.fetch, local.loss,
          local.schedule(steps))
    return {"fetched": chosen.size / fetched, "model": steps * batch / trained,
            "anonymous": _rss_anon()}


def _read(windows: NDArray[Any], chosen: NDArray[np.int64]) -> float:
    started, total = time.perf_counter(), 0.0
    for rows in chosen:
        total += float(np.array(windows[rows])[:, 0, 0].sum())
    return time.perf_counter() - started


def _rss_anon() -> int:
    """Memory of this process that no file backs, bytes."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("RssAnon:"):
            return 1024 * int(line.split()[1])
    raise InputError("/proc/self/status has no RssAnon; needed is Linux 4.5 or later")


def show(found: dict[str, float]) -> None:
    """Print the figures beside their targets."""
    table = Table(title="A store on disk")
    for title in ("what", "found", "target"):
        table.add_column(title, justify="left" if title == "what" else "right")
    ratio = found["store"] / found["bare memmap"]
    table.add_row("open", f"{1000 * found['open']:.1f} ms", f"< {MAX_OPEN_S:g} s")
    table.add_row("size", f"{found['bytes'] / 1e9:.2f} GB", f"<= {MAX_BYTES / 1e9:g} GB")
    table.add_row("RssAnon after training", f"{found['anonymous'] / 1e9:.3f} GB",
                  f"< {MAX_ANON_BYTES / 1e9:g} GB")
    table.add_row("random windows / s", f"{found['store']:.0f}", "")
    table.add_row("the same, bare memmap", f"{found['bare memmap']:.0f}", "")
    table.add_row("store / bare memmap", f"{ratio:.2f}", "")
    table.add_row("random windows / s, a hospital's fetch", f"{found['fetched']:.0f}",
                  f"> {found['model']:.0f}")
    table.add_row("windows / s that the smallest network trains", f"{found['model']:.0f}", "")
    Console().print(table)


if __name__ == "__main__":
    main()
