"""FedAvg that waits for every hospital, but not for ever, and names who is left out.

Replies are summed in the order of site names, since floating-point sums depend on the order.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterable

import numpy as np
from flwr.app import ArrayRecord, ConfigRecord, Message, MetricRecord
from flwr.serverapp import Grid
from flwr.serverapp.strategy import FedAvg

from common.errors import UpdateError
from common.protocol import ARRAYS, ERRORS, METRICS, NUM_EXAMPLES, REPLY


class NoDataError(UpdateError):
    """No hospital has a usable window for a stage."""


def connected(grid: Grid, nodes: int, wait: float) -> list[int]:
    """Ids of the connected hospitals, as soon as there are `nodes` of them.

    Raises:
        UpdateError: there are fewer after `wait` seconds.
    """
    give_up = time.monotonic() + wait
    while len(ids := list(grid.get_node_ids())) < nodes:
        if time.monotonic() >= give_up:
            raise UpdateError(f"{len(ids)} of {nodes} hospitals are connected after {wait:g} s "
                              f"(hospitals={nodes}, wait={wait:g}); {nodes - len(ids)} missing, "
                              f"connected are nodes {sorted(ids)}")
        time.sleep(min(1.0, wait / 10))
    return ids


class SitewiseFedAvg(FedAvg):
    """Federated averaging (McMahan et al., 2017) weighted by what hospitals declare.

    Args:
        expected: shape of every array that a reply must hold.
        nodes: hospitals that must be connected before a round starts.
        wait: how long a round waits for them, s.
        left_out: called with (hospital, reason) for each reply that is not used.
        heads: of the hospitals' ledgers, by site; echoed to them and kept up to date.
    """

    least = 1  # windows that a hospital must declare

    def __init__(self, expected: dict[str, tuple[int, ...]], nodes: int, wait: float,
                 left_out: Callable[[str, str], None], heads: dict[str, str]) -> None:
        super().__init__(fraction_evaluate=0.0, min_train_nodes=nodes, min_available_nodes=nodes)
        self.expected, self.nodes, self.wait, self.left_out = expected, nodes, wait, left_out
        self.heads = heads
        self.loss: float | None = None  # of the last round, where hospitals may share it

    def configure_train(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        """Messages of a round; Flower itself would wait for ever for a hospital that is gone."""
        connected(grid, self.nodes, self.wait)
        config["heads"] = json.dumps(self.heads)
        return super().configure_train(server_round, arrays, config, grid)

    def aggregate_train(
        self, server_round: int, replies: Iterable[Message]
    ) -> tuple[ArrayRecord | None, MetricRecord | None]:
        """Average the usable replies.

        Raises:
            NoDataError: every hospital says that it has no usable window for the stage.
            UpdateError: there is no usable reply for another reason.
        """
        arrays, metrics = super().aggregate_train(server_round, self.usable(server_round, replies))
        loss = metrics.get("loss") if metrics else None
        self.loss = loss if isinstance(loss, float) else None
        return arrays, metrics

    def usable(self, server_round: int, replies: Iterable[Message]) -> list[Message]:
        """Replies that may be used, in the order of site names; the others are told of.

        Raises:
            NoDataError, UpdateError: as `aggregate_train`.
        """
        usable: list[Message] = []
        problems = []
        replies = sorted(replies, key=_site)
        if len(replies) < self.nodes:
            problems.append("no reply in time")
            self.left_out(f"unknown ({self.nodes - len(replies)} of {self.nodes})", problems[0])
        for message in replies:
            problem = self._problem(message)
            site = _site(message)
            remember(self.heads, message)
            if problem:
                self.left_out(site, problem)
                problems.append(problem)
            else:
                usable.append(message)
        if not usable:
            no_data = problems and set(problems) == {ERRORS["no-windows"]}
            error = NoDataError if no_data else UpdateError
            raise error(f"round {server_round}: 0 usable replies, at least 1 is needed; "
                        + "; ".join(sorted(set(problems))))
        return usable

    def _problem(self, message: Message) -> str:
        """Why a reply cannot be used; empty if it can."""
        if message.has_error():
            return f"Flower error {message.error.code}"
        reply = message.content.config_records.get(REPLY)
        if reply is None or "error" not in reply:
            return "a reply without its status"
        code = str(reply["error"])
        if code:
            return ERRORS.get(code, "an unknown error code")
        missing = {ARRAYS, METRICS} - set(message.content)
        if missing:
            return f"a reply without {', '.join(sorted(missing))}"
        declared = message.content.metric_records[METRICS].get(NUM_EXAMPLES)
        if not isinstance(declared, int) or declared < self.least:
            return f"it declares {declared} training windows, at least {self.least} is needed"
        record = message.content.array_records[ARRAYS]
        arrays = {name: array.numpy() for name, array in record.items()}
        shapes = {name: array.shape for name, array in arrays.items()}
        if shapes != self.expected:
            wrong = sorted(n for n in {*shapes, *self.expected}
                           if shapes.get(n) != self.expected.get(n))
            return f"wrong shape: {wrong[0]} is {shapes.get(wrong[0])}, " \
                   f"expected {self.expected.get(wrong[0])}"
        bad = [name for name, array in arrays.items() if not np.isfinite(array).all()]
        return f"not finite: {bad[0]}" if bad else ""


def remember(heads: dict[str, str], message: Message) -> None:
    """Note how far the ledger of the message's hospital had come."""
    if not message.has_error() and REPLY in message.content:
        reply = message.content.config_records[REPLY]
        if re.fullmatch(r"\d{1,12}:[0-9a-f]{64}", str(reply.get("head", ""))):
            heads[str(reply["site"])] = str(reply["head"])


def _site(message: Message) -> str:
    if message.has_error() or REPLY not in message.content:
        return f"node {message.metadata.src_node_id}"
    return str(message.content.config_records[REPLY]["site"])
