"""A hospital that is killed at any point has written down at least what it sent."""

import hashlib
import math
import multiprocessing
import os
import random
import signal
import sqlite3
import sys
import time
from contextlib import closing
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from client.ledger import Ledger
from client.ledger_chain import START, Head
from common.privacy.accounting import Spend, epsilon

DELTA = 1e-5
SPEND = Spend(0.3, 2.0, 20)
FORK = multiprocessing.get_context("fork")


def digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def work(folder: Path) -> None:
    """Charge, keep the reply, settle, send: round after round, resending where it can."""
    ledger = Ledger(folder / "ledger", folder / "head")
    sent = os.open(folder / "sent", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    first = len((folder / "sent").read_text().splitlines())
    for number in range(first, first + 10**6):
        received, kept = digest(b"in%d" % number), folder / f"reply{number}"
        found = ledger.find("run", "rean", number, received)
        if found is None:
            row = ledger.charge("run", "rean", number, "patient", SPEND, DELTA, received, math.inf)
            reply = os.urandom(8)
            kept.with_suffix(".part").write_bytes(reply)
            kept.with_suffix(".part").rename(kept)
            ledger.settle(row, digest(reply))
        os.write(sent, f"{number} {digest(kept.read_bytes())}\n".encode())


def work_until_line(folder: Path, line: int) -> None:
    """Die before the given line of the ledger's own code, counted from the start."""
    left = line

    def trace(frame: FrameType, event: str, _: Any) -> Any:
        nonlocal left
        if "ledger" not in Path(frame.f_code.co_filename).name:
            return None
        left -= event == "line"
        if left < 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return trace

    sys.settrace(trace)
    work(folder)


def check(folder: Path) -> int:
    """Everything that was sent is charged and settled, chain and head hold; replies sent."""
    head = (folder / "head").read_text().strip() if (folder / "head").exists() else str(START)
    if (folder / "ledger").exists():
        with closing(sqlite3.connect(folder / "ledger")) as connection:
            rows = connection.execute("SELECT number, hash FROM events ORDER BY number").fetchall()
        heads = [str(START), *(str(Head(*row)) for row in rows)]
        assert head in heads[-2:]  # at most one event behind
    ledger = Ledger(folder / "ledger", folder / "head")
    assert (folder / "head").read_text().strip() == str(ledger.head())
    lines = (folder / "sent").read_text().splitlines() if (folder / "sent").exists() else []
    settled = {(release.received, release.reply) for release in ledger.releases()}
    for number, reply in (line.split() for line in lines):
        assert (digest(b"in%d" % int(number)), reply) in settled
    return len(lines)


@pytest.fixture(scope="module", autouse=True)
def warm() -> None:
    epsilon([SPEND], DELTA)  # loads Opacus, so that no child spends its life on that


def test_killed_at_random_times(tmp_path: Path) -> None:
    draw, kills, sent, killed_at_work, span = random.Random(), 60, 0, 0, 0.1
    for _ in range(kills):
        child = FORK.Process(target=work, args=(tmp_path,))
        child.start()
        time.sleep(draw.uniform(0, span))
        assert child.pid is not None
        os.kill(child.pid, signal.SIGKILL)
        child.join(60)
        assert child.exitcode == -signal.SIGKILL
        before, sent = sent, check(tmp_path)
        killed_at_work += sent > before
        span *= 0.8 if sent > before else 1.25  # half the children reach their work on any host
    assert killed_at_work > kills / 4  # else the test watched children that never began
    charged = Ledger(tmp_path / "ledger", tmp_path / "head").account(DELTA).releases
    assert sent <= charged <= sent + kills  # a crash costs at most one release


def test_killed_between_the_ledgers_own_lines(tmp_path: Path) -> None:
    """Every 31st line that runs in the first rounds: the making of the file included."""
    sent = 0
    for step, line in enumerate(range(0, 1400, 31)):
        folder = tmp_path / str(step)
        folder.mkdir()
        child = FORK.Process(target=work_until_line, args=(folder, line))
        child.start()
        child.join(60)
        assert child.exitcode == -signal.SIGKILL
        sent = max(sent, check(folder))
    assert sent >= 2
