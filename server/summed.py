"""One private step a round: the hospitals' noisy sums of gradients, summed, move the weights.

The noise is on the sum alone, to which each hospital adds a share, so it is smaller by the number
of hospitals than if each protected itself. The price is an exchange a step, and that nobody may
see the parts: here they are summed in this process.
Source: distributed DP as in Kairouz, Liu & Steinke (2021), "The distributed discrete Gaussian
mechanism", with continuous noise and without its integers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

import torch
from flwr.app import ArrayRecord, Message, MetricRecord
from torch import Tensor

from common.config import Settings
from common.privacy.shares import enough
from common.protocol import ARRAYS, METRICS, NUM_EXAMPLES, Stage
from common.training import Schedule, exchanges
from server.strategy import SitewiseFedAvg


class SummedStep(SitewiseFedAvg):
    """AdamW on the sum of the replies over q times the declared patients.

    A step that too few hospitals answered is discarded: the weights stay, the ledgers are charged.

    Args:
        state: all weights of the stage.
        trainable: names of those that training changes; the shapes of every reply.
        settings: of the run.
        stage: of the run.
        done: steps that were made before.
        moments: of AdamW after these; empty: none.
        nodes, wait, left_out, heads: of `SitewiseFedAvg`.
    """

    least = 0  # a hospital without a window for the stage still adds its share of the noise

    def __init__(self, state: Mapping[str, Tensor], trainable: Iterable[str], settings: Settings,
                 stage: Stage, done: int, moments: Mapping[str, Tensor], nodes: int, wait: float,
                 left_out: Callable[[str, str], None], heads: dict[str, str]) -> None:
        self.state = dict(state)
        self.changing = {name: state[name].clone().requires_grad_(True)
                         for name in sorted(trainable)}
        super().__init__({name: tuple(p.shape) for name, p in self.changing.items()}, nodes, wait,
                         left_out, heads)
        training, self.privacy, self.made = settings.stage(stage), settings.privacy, done
        self.schedule = Schedule(training.lr, 0, exchanges(settings, stage))
        self.optimizer = torch.optim.AdamW(self.changing.values(), lr=training.lr,
                                           weight_decay=training.weight_decay)
        for name, p in self.changing.items():
            if f"exp_avg.{name}" in moments:
                self.optimizer.state[p] = {"step": torch.tensor(float(done)), **{
                    key: moments[f"{key}.{name}"] for key in ("exp_avg", "exp_avg_sq")}}

    def aggregate_train(
        self, server_round: int, replies: Iterable[Message]
    ) -> tuple[ArrayRecord | None, MetricRecord | None]:
        """Move the weights by one step."""
        usable = self.usable(server_round, replies)
        if enough(self.nodes, self.privacy.missing, len(usable)):
            declared = sum(int(str(m.content.metric_records[METRICS][NUM_EXAMPLES]))
                           for m in usable)
            self._step([m.content.array_records[ARRAYS].to_torch_state_dict() for m in usable],
                       self.privacy.q * max(1, declared))
        else:
            self.left_out("any", f"{len(usable)} of {self.nodes} replied, at least "
                                 f"{self.nodes - self.privacy.missing} are needed: the step was "
                                 "discarded and stays charged")
        self.made += 1
        return ArrayRecord(self.state), MetricRecord({})

    def _step(self, sums: list[dict[str, Tensor]], expected: float) -> None:
        for group in self.optimizer.param_groups:
            group["lr"] = self.schedule.at(self.made)
        for name, p in self.changing.items():
            p.grad = torch.stack([one[name] for one in sums]).sum(0) / expected
        self.optimizer.step()
        self.state |= {name: p.detach().clone() for name, p in self.changing.items()}

    def moments(self) -> dict[str, Tensor]:
        """AdamW's moments by name, to go on from."""
        return {f"{key}.{name}": self.optimizer.state[p][key] for name, p in self.changing.items()
                for key in ("exp_avg", "exp_avg_sq") if p in self.optimizer.state}
