"""Preparing windows against a bare loop over the same records, and two workers against one.

The bare loop does what nobody can avoid: wfdb.rdrecord, wfdb.rdann, scipy's resample_poly. The
three ways alternate, and a ratio is the median over the repeats of the ratio within one, so that a
busy machine slows both sides alike. CPU time tells what two workers would gain on two free cores:
the parent's own work, then half of the workers'.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from fractions import Fraction
from pathlib import Path

import wfdb
from rich.console import Console
from rich.table import Table
from scipy.signal import resample_poly

from common.ecg.hospital_file import HospitalFile, load_hospital
from common.ecg.synthetic import CohortSettings, write_consortium
from common.ecg.windows import WindowSettings, prepare

MAX_RATIO = 1.3  # of the bare loop's time
MIN_SPEEDUP = 1.6  # of two workers over one
_Record = tuple[str, list[int], bool]  # path, channels, has annotations
_Seconds = tuple[float, float, float]  # wall, CPU of this process, CPU of its workers


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--hospital", type=Path, action="append", default=[], metavar="FILE",
                        help="hospital file, may be repeated; default: the embedded cohort")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--sampling-rate", type=int, default=250, help="of the windows, Hz")
    arguments = parser.parse_args()
    settings = WindowSettings(arguments.sampling_rate, 8.0, 0.15, 0)
    with tempfile.TemporaryDirectory(prefix="fedrean-bench-") as folder:
        files = arguments.hospital or write_consortium(Path(folder) / "cohort", CohortSettings())
        hospitals = [load_hospital(file) for file in files]
        show(measure(hospitals, settings, Path(folder) / "stores", arguments.repeats))


def measure(hospitals: Sequence[HospitalFile], settings: WindowSettings, folder: Path,
            repeats: int) -> dict[str, list[_Seconds]]:
    """Seconds of each way, in alternating repeats."""
    records = [found for hospital in hospitals for found in _records(hospital, settings, folder)]

    def ours(workers: int) -> None:
        shutil.rmtree(folder)
        for hospital in hospitals:
            prepare(hospital, folder, settings, workers)

    ways: dict[str, Callable[[], None]] = {
        "bare loop": lambda: bare(records, settings.sampling_rate),
        "prepare, 1 worker": lambda: ours(1),
        "prepare, 2 workers": lambda: ours(2),
    }
    taken: dict[str, list[_Seconds]] = {name: [] for name in ways}
    for _ in range(repeats):
        for name, way in ways.items():
            before = _clocks()
            way()
            wall, own, workers = (now - then for now, then in zip(_clocks(), before, strict=True))
            taken[name].append((wall, own, workers))
    return taken


def _clocks() -> _Seconds:
    cpu = os.times()
    return (time.perf_counter(), cpu.user + cpu.system, cpu.children_user + cpu.children_system)


def _records(hospital: HospitalFile, settings: WindowSettings, folder: Path) -> list[_Record]:
    """The records that prepare uses; preparing once also warms the page cache."""
    found = []
    for record in prepare(hospital, folder, settings).info["records"]:
        path = hospital.path / record
        names = wfdb.rdheader(str(path)).sig_name
        leads = [next(names.index(n) for n in lead if n in names) for lead in hospital.leads]
        marked = hospital.labels != "none" and path.with_name(path.name + ".atr").is_file()
        found.append((str(path), leads, marked))
    return found


def bare(records: Sequence[_Record], rate: int) -> None:
    """Read and resample, keep nothing."""
    for path, leads, marked in records:
        read = wfdb.rdrecord(path, channels=leads)
        if marked:
            wfdb.rdann(path, "atr")
        ratio = Fraction(rate) / Fraction(read.fs).limit_denominator(1000)
        resample_poly(read.p_signal, ratio.numerator, ratio.denominator, axis=0)


def show(taken: dict[str, list[_Seconds]]) -> None:
    """Print the times, and both ratios by wall clock and by CPU time."""
    table = Table(title="Preparing windows, median")
    for title in ("way", "wall, s", "CPU, s"):
        table.add_column(title, justify="left" if title == "way" else "right")
    for name, runs in taken.items():
        wall = statistics.median(run[0] for run in runs)
        table.add_row(name, f"{wall:.2f}", f"{statistics.median(r[1] + r[2] for r in runs):.2f}")
    repeats = list(zip(*taken.values(), strict=True))  # (bare, one worker, two workers) of each
    slower = [[one[i] / loop[i] for loop, one, _ in repeats] for i in (0, 1)]
    faster = [one[0] / two[0] for _, one, two in repeats]
    free = [one[1] / (two[1] + two[2] / 2) for _, one, two in repeats]
    lines = (
        f"prepare / bare loop: wall {statistics.median(slower[0]):.2f}, CPU "
        f"{statistics.median(slower[1]):.2f} (target at most {MAX_RATIO})",
        f"2 workers are faster: wall {statistics.median(faster):.2f} times, on free cores "
        f"{statistics.median(free):.2f} times by CPU (target at least {MIN_SPEEDUP})",
        f"{len(repeats)} repeats, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}",
    )
    console = Console()
    console.print(table)
    for line in lines:
        console.print(line, soft_wrap=True, highlight=False)


if __name__ == "__main__":
    main()
