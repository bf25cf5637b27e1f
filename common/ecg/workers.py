"""Cutting many records at once, in processes; what an interrupted call finished is not redone."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from functools import partial
from pathlib import Path
from zipfile import BadZipFile

from common.ecg.cutting import Cut, WindowSettings, cut_record
from common.ecg.hospital_file import HospitalFile
from common.errors import InputError


def cut_all(
    hospital: HospitalFile,
    records: Sequence[str],
    folder: Path,
    settings: WindowSettings,
    workers: int,
    progress: Callable[[int, int], None] | None,
) -> list[Cut]:
    """Cut every record into `folder`/NUMBER.part, in the order of `records`.

    Args:
        folder: of one hospital, content and settings: what lies there from an earlier call counts.
        workers: processes; 1 stays in this one.
        progress: told (records done, records).

    Raises:
        InputError: a part cannot be written, or a worker was killed.
    """
    report = progress or (lambda done, total: None)
    one = partial(_cut_once, hospital, settings=settings)
    jobs = [(record, folder / f"{i}.part") for i, record in enumerate(records)]
    if workers <= 1:
        cuts = []
        for job in jobs:
            cuts.append(one(*job))
            report(len(cuts), len(jobs))
        return cuts
    fork = multiprocessing.get_context("fork")
    with ProcessPoolExecutor(workers, fork, _prepare_worker) as executor:
        futures = [executor.submit(one, *job) for job in jobs]
        try:
            for done, future in enumerate(as_completed(futures), 1):
                future.result()
                report(done, len(jobs))
        except BrokenProcessPool:
            raise InputError(f"hospital {hospital.name}: a worker was killed, perhaps for memory; "
                             f"workers is {workers}, try fewer") from None  # fmt: skip
        except BaseException:
            executor.shutdown(cancel_futures=True)  # the other records would be waited for
            raise
        return [future.result() for future in futures]


def _cut_once(hospital: HospitalFile, record: str, part: Path, *, settings: WindowSettings) -> Cut:
    """Cut a record, or take what an earlier call made of it."""
    done = part.with_suffix(".npz")
    try:
        cut = Cut.load(done)
        size = 4 * len(cut.starts) * len(hospital.leads) * settings.length
        if not size or part.stat().st_size == size:  # joining parts removes them one by one
            return cut
    except (OSError, EOFError, ValueError, KeyError, BadZipFile):
        pass  # not there, or half-written by a process that died
    cut = cut_record(hospital, record, part, settings)
    try:
        cut.save(done)
    except OSError as error:
        raise InputError(f"store is '{part.parent}'; it cannot be written: {error}") from None
    return cut


def _prepare_worker() -> None:
    """Ctrl-C reaches the whole group, and the parent alone answers it; no worker outlives it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_follow, args=(os.getppid(),), daemon=True).start()


def _follow(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(1.0)
    os._exit(1)
