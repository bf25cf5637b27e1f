"""One run on the server, in order: steps 2 to 5 of the design. Steps 1, 6 and 7 lie around it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Protocol

from flwr.app import ArrayRecord, ConfigRecord, Message, RecordDict
from flwr.serverapp import Grid
from torch import Tensor

from common.config import Settings
from common.errors import InputError, UpdateError
from common.models.classifier import build, shared_state
from common.models.files import load_state, save_state
from common.models.trainable import choose
from common.protocol import (
    ARRAYS,
    CLASSIFIER_STAGES,
    CONFIG,
    ERRORS,
    FREEZE,
    RELEASE,
    REPLY,
    Stage,
)
from common.results import read_json, write_json
from common.training import exchanges, seed_from
from server.run_directory import started_from
from server.strategy import NoDataError, SitewiseFedAvg, connected, remember
from server.summed import SummedStep

_REPLY_LIMIT = 43_200.0  # s; Flower drops an unanswered message after 12 h


class Progress(Protocol):
    """Told of every finished round; draws nothing itself."""

    def __call__(self, stage: str, number: int, rounds: int) -> None:
        """A round of a stage is done."""


@dataclass
class Journal:
    """What the server remembers of a run, on disk after every round."""

    path: Path
    losses: dict[str, list[float | None]] = field(default_factory=dict)
    left_out: dict[str, int] = field(default_factory=dict)  # who, of which stage and why -> rounds
    untrained: list[str] = field(default_factory=list)  # stages that no hospital could train
    heads: dict[str, str] = field(default_factory=dict)  # of the hospitals' ledgers, by site

    def save(self) -> None:
        """Write the journal."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        write_json(self.path, {"losses": self.losses, "left_out": self.left_out,
                               "untrained": self.untrained, "heads": self.heads})

    def lines(self) -> list[str]:
        """What was left out, one line each."""
        lines = [f"{what} ({rounds} round{'s' * (rounds != 1)})"
                 for what, rounds in self.left_out.items()]
        return lines + [f"stage {stage} was not trained: no hospital has a usable window for it"
                        for stage in self.untrained]

    @classmethod
    def load(cls, path: Path) -> Journal:
        """The journal of an interrupted run, or an empty one."""
        saved = read_json(path) if path.exists() else {}
        return cls(path, **saved)


@dataclass
class Workflow:
    """The server's side of one run.

    Args:
        settings: of the run.
        run: identifier that hospitals keep their state and ledger rows under.
        folder: where models and checkpoints go.
        nodes: number of hospitals.
        progress: told of finished rounds.
        wait: how long to wait until all hospitals are connected, s.
    """

    settings: Settings
    run: str
    folder: Path
    nodes: int
    progress: Progress
    wait: float = 600.0

    def __post_init__(self) -> None:
        self.journal = Journal.load(self.folder / "checkpoints" / "journal.json")
        self.config = ConfigRecord({"settings": json.dumps(self.settings.as_dict()),
                                    "run": self.run, "hospitals": self.nodes})

    def start(self, grid: Grid) -> None:
        """Steps 2 to 5, on Flower's grid of connected hospitals."""
        # 2. Train the classifiers, one after the other.
        models: dict[Stage, dict[str, Tensor]] = {}
        for stage in CLASSIFIER_STAGES:
            # Sex and age are functions of who it is: they start from the identity backbone.
            start = models["identity"] if stage in ("sex", "age") else {}
            models[stage] = self.train(grid, stage, start)
        # 3. Freeze: every hospital keeps the four; nothing updates them again.
        self.ask(grid, FREEZE, {stage: ArrayRecord(model) for stage, model in models.items()})
        # 4. Train the anonymizer against them.
        anonymizer = self.train(grid, "anonymizer", {})
        # 5. Release: each hospital anonymizes its own test recordings.
        self.ask(grid, RELEASE, {ARRAYS: ArrayRecord(anonymizer)})
        self.progress("release", 1, 1)

    def train(self, grid: Grid, stage: Stage,
              start: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Train a stage from its last checkpoint; the final shared weights.

        Args:
            grid: of connected hospitals.
            stage: of the run.
            start: weights to begin with, of which those of the same name are taken; the others
                are drawn by the run's seed.
        """
        rounds = exchanges(self.settings, stage)
        state, done = self._last_checkpoint(stage, start)
        if done < rounds and self.settings.trainable != "none":
            strategy = self._strategy(stage, state, done)
            config = ConfigRecord({**self.config, "stage": stage, "offset": done})
            try:
                result = strategy.start(
                    grid, ArrayRecord(state), num_rounds=rounds - done, timeout=_REPLY_LIMIT,
                    train_config=config,
                    evaluate_fn=lambda number, arrays: self._checkpoint(
                        stage, done + number, arrays, strategy) if number else None)
                state = result.arrays.to_torch_state_dict()
            except NoDataError:  # its labels are unknown everywhere, so nothing depends on it
                self.journal.untrained = sorted({*self.journal.untrained, stage})
                self.journal.save()
        save_state(self.folder / "models" / f"{stage}.safetensors", state,
                   {"stage": stage, "profile": self.settings.profile.name, "run": self.run})
        return state

    def _strategy(self, stage: Stage, state: Mapping[str, Tensor], done: int) -> SitewiseFedAvg:
        """How the replies of a stage become weights."""
        left_out = partial(self._leave_out, stage)
        if self.settings.privacy.trust == "hospital":
            shapes = {name: tuple(value.shape) for name, value in state.items()}
            return SitewiseFedAvg(shapes, self.nodes, self.wait, left_out, self.journal.heads)
        network = choose(build(stage, self.settings, self.settings.leads, 2, 0),
                         self.settings.trainable)
        trainable = [name for name, p in network.named_parameters() if p.requires_grad]
        moments = load_state(self._moments(stage, done)) if done else {}
        return SummedStep(state, trainable, self.settings, stage, done, moments, self.nodes,
                          self.wait, left_out, self.journal.heads)

    def ask(self, grid: Grid, query: str, records: Mapping[str, ArrayRecord]) -> None:
        """Send one query to every hospital.

        Raises:
            UpdateError: hospitals could not do it, or did not answer; all are named.
        """
        config = ConfigRecord({**self.config, "heads": json.dumps(self.journal.heads)})
        content = RecordDict({**records, CONFIG: config})
        messages = [Message(content, dst_node_id=node, message_type=f"query.{query}")
                    for node in connected(grid, self.nodes, self.wait)]
        replies = list(grid.send_and_receive(messages, timeout=_REPLY_LIMIT))
        for reply in replies:
            remember(self.journal.heads, reply)
        problems = sorted(filter(None, map(_problem, replies)))
        if len(replies) < len(messages):
            problems.append(f"{len(messages) - len(replies)} of {len(messages)} hospitals gave no "
                            f"answer within {_REPLY_LIMIT:g} s")
        if problems:
            raise UpdateError(f"{query}: {'; '.join(problems)}")

    def _last_checkpoint(self, stage: Stage,
                         start: Mapping[str, Tensor]) -> tuple[dict[str, Tensor], int]:
        for number in range(exchanges(self.settings, stage), 0, -1):
            path = self._file(stage, number)
            if path.exists():
                return load_state(path), number
        if self.settings.start:
            start = started_from(self.settings.start, stage)
        seed = seed_from(self.settings, "server", stage)
        drawn = shared_state(stage, build(stage, self.settings, self.settings.leads, 2, seed))
        for name in drawn.keys() & start.keys():
            if drawn[name].shape != start[name].shape:
                raise InputError(f"start is '{self.settings.start}', whose {stage} has {name} of "
                                 f"shape {tuple(start[name].shape)}; allowed is "
                                 f"{tuple(drawn[name].shape)}: the same profile and leads")
        return {name: start.get(name, value) for name, value in drawn.items()}, 0

    def _file(self, stage: Stage, number: int) -> Path:
        return self.folder / "checkpoints" / f"{stage}-{number}.safetensors"

    def _moments(self, stage: Stage, number: int) -> Path:
        return self.folder / "checkpoints" / f"{stage}-{number}.moments.safetensors"

    def _checkpoint(self, stage: Stage, number: int, arrays: ArrayRecord,
                    strategy: SitewiseFedAvg) -> None:
        """Everything a resumed run needs after this round; weights last, as they mark it done."""
        losses = self.journal.losses.setdefault(stage, [])
        losses[number - 1 :] = [strategy.loss]
        self.journal.save()
        if isinstance(strategy, SummedStep):
            save_state(self._moments(stage, number), strategy.moments(), {})
        save_state(self._file(stage, number), arrays.to_torch_state_dict(), {})
        if isinstance(strategy, SummedStep) and number > 1:  # hundreds of steps: the last will do
            for old in (self._file(stage, number - 1), self._moments(stage, number - 1)):
                old.unlink(missing_ok=True)
        rounds = self.settings.stage(stage).rounds
        a_round = exchanges(self.settings, stage) // rounds
        if number % a_round == 0:
            self.progress(stage, number // a_round, rounds)

    def _leave_out(self, stage: Stage, site: str, problem: str) -> None:
        what = f"hospital {site} took no part in {stage}: {problem}"
        self.journal.left_out[what] = self.journal.left_out.get(what, 0) + 1


def _problem(reply: Message) -> str:
    """Who could not answer a query, and why; empty if all went well."""
    answer = ConfigRecord()
    if not reply.has_error():
        answer = reply.content.config_records.get(REPLY, answer)
    code = str(answer.get("error", "internal"))
    site = str(answer.get("site", "")) or f"node {reply.metadata.src_node_id}"
    return f"{site}: {ERRORS.get(code, 'an unknown error code')}" if code else ""
