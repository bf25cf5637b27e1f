"""Matching probes with a gallery, beside the bare blocked matrix product of the same size.

Both take the same vectors and threads; the bare product throws its result away. The ways alternate,
so that a busy machine slows them alike; the ratio is the median of those within one repeat. Three
galleries: one window a patient (ranks over all of them), a hundred, and fifty patients in all.
"""

from __future__ import annotations

import argparse
import resource
import statistics
import time

import numpy as np
import torch
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table

from common.audits.matching import match, unit

MAX_RATIO = 1.5
DIMENSIONS = 64  # of an embedding of the auditor's networks
BLOCK = 1024  # rows and columns of a block of the bare product


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description="Matching beside a bare blocked matrix product.")
    parser.add_argument("--windows", type=int, default=100_000, help="of the gallery, and probes")
    parser.add_argument("--repeats", type=int, default=1)
    parser.add_argument("--threads", type=int, default=2)
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    n = arguments.windows
    table = Table("patients", "match, s", "bare, s", "ratio", "peak MB",
                  title=f"{n:,} gallery x {n:,} probe embeddings, {arguments.threads} threads")
    for patients in (n, max(1, n // 100), 50):
        ours, bare = times(n, patients, arguments.repeats)
        ratio = statistics.median(a / b for a, b in zip(ours, bare, strict=True))
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        table.add_row(f"{patients:,}", f"{statistics.median(ours):.1f}",
                      f"{statistics.median(bare):.1f}",
                      f"{ratio:.2f} ({'within' if ratio <= MAX_RATIO else 'above'} {MAX_RATIO})",
                      f"{peak:.0f}")
    Console().print(table)


def times(n: int, patients: int, repeats: int) -> tuple[list[float], list[float]]:
    """Seconds of matching and of the bare product, a repeat each."""
    generator = np.random.default_rng(0)
    gallery, probe = (generator.standard_normal((n, DIMENSIONS)).astype(np.float32)
                      for _ in range(2))
    owner = np.arange(n) % patients
    ours: list[float] = []
    bare: list[float] = []
    for _ in range(repeats):
        for kept, way in ((ours, lambda: match(gallery, owner, probe, owner)),
                          (bare, lambda: product(gallery, probe))):
            started = time.perf_counter()
            way()
            kept.append(time.perf_counter() - started)
    return ours, bare


def product(gallery: NDArray[np.float32], probe: NDArray[np.float32]) -> None:
    """All cosines, a square block at a time into the same memory: the fastest of those tried."""
    enrolled, probes = torch.from_numpy(unit(gallery)), torch.from_numpy(unit(probe))
    memory = torch.empty(BLOCK * BLOCK)
    for i in range(0, len(probes), BLOCK):
        for j in range(0, len(enrolled), BLOCK):
            rows, columns = probes[i : i + BLOCK], enrolled[j : j + BLOCK]
            shape = len(rows), len(columns)
            torch.mm(rows, columns.T, out=memory[: shape[0] * shape[1]].view(shape))


if __name__ == "__main__":
    main()
