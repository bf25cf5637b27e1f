"""Progress on the terminal: stage, round, hospitals, epsilon so far and time left."""

from __future__ import annotations

import time
from pathlib import Path
from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from client.ledger import Ledger
from common.config import Settings
from common.protocol import STAGES


class Bars:
    """Draws what server.workflow.Progress reports; plain lines where there is no terminal."""

    def __init__(self, settings: Settings, console: Console, folder: Path) -> None:
        self.settings, self.console, self.folder = settings, console, folder
        self.rounds = sum(settings.stage(stage).rounds for stage in STAGES)
        self.hospitals = 0
        self.here = 0  # rounds of the workflow that are done, those before a resumption included
        self.earlier = 0  # rounds of other hospitals' workflows (training=local)
        self.made = 0  # rounds that this process saw
        self.started, self.task = time.monotonic(), TaskID(0)
        self.bar = Progress(TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn(),
                            TextColumn("{task.fields[left]}"), console=console,
                            disable=not console.is_terminal)

    def __enter__(self) -> Bars:
        self.bar.start()
        self.task = self.bar.add_task("preparing", total=self.rounds, left="")
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        self.bar.stop()

    def __call__(self, stage: str, number: int, rounds: int) -> None:
        """Show a finished round, or a step that has none."""
        if stage == "prepare":
            self.hospitals = rounds
        left, who = "", ""
        if stage in STAGES:
            left = f"about {self._left(stage, number):.0f} s of training left"
            who = f", {self.hospitals} hospital{'s' * (self.hospitals != 1)}"
        text = f"{stage} {number}/{rounds}{who}{self._spent()}" if rounds else stage
        self.bar.update(self.task, completed=self.earlier + self.here,
                        total=self._total(), description=text, left=left)
        if not self.console.is_terminal:
            self.console.print(f"{time.monotonic() - self.started:6.1f} s  {text}  {left}",
                               soft_wrap=True, highlight=False)
            self.console.file.flush()  # a pipe or a log file would show it minutes late

    def _total(self) -> int:
        """Rounds of the whole run."""
        local = self.settings.training == "local"
        return self.rounds * (max(1, self.hospitals) if local else 1)

    def _left(self, stage: str, number: int) -> float:
        """Count a finished round; how long the others take at the pace so far, s."""
        before = STAGES[: list[str](STAGES).index(stage)]
        here = sum(self.settings.stage(other).rounds for other in before) + number
        if here <= self.here:  # the next hospital begins
            self.earlier += self.rounds
        self.here, self.made = here, self.made + 1
        pace = (time.monotonic() - self.started) / self.made
        return pace * (self._total() - self.earlier - self.here)

    def _spent(self) -> str:
        """Largest epsilon over the ledgers, of what the run protects."""
        privacy = self.settings.privacy
        ledgers = sorted((self.folder / "ledgers").glob("*.sqlite"))
        if privacy.unit == "none" or not ledgers:
            return ""
        accounts = [Ledger(path).account(privacy.delta) for path in ledgers]
        if privacy.unit == "window":
            spent = max(account.epsilon_window for account in accounts)
            return f"  epsilon {spent:.2f} per window (patient: not bounded)"
        known = [account.epsilon_patient for account in accounts]
        bounded = [spent for spent in known if spent is not None]
        return f"  epsilon {max(bounded):.2f} per patient" if len(bounded) == len(known) else \
            "  patient: not bounded"
