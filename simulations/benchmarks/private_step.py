"""Steps private per patient and per window, beside the plain step on the same windows.

All make one AdamW step on the same windows of some patients, with noise where it belongs. The ways
alternate; a ratio is the median of those within one repeat.
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Callable, Mapping, Sequence
from functools import partial

import numpy as np
import torch
from rich.console import Console
from rich.table import Table
from torch import Tensor, nn

from common.anonymizers.contract import Labelled
from common.anonymizers.rean import rean_loss
from common.config import Settings
from common.models.classifier import build
from common.privacy.patient_dp import PatientSum
from common.protocol import Stage
from common.training import allowed_loss, masked_loss
from server.overrides import compose_settings
from simulations.benchmarks.rean_step import alternate, made, networks, peak_mb

MAX_RATIO = 1.3
SIGMA, CLIP = 1.0, 0.5
STAGES: tuple[Stage, ...] = ("diagnosis", "sex", "anonymizer")  # a ResNet, a ViT, a U-Net
StageLoss = Callable[[nn.Module, dict[str, Tensor]], Tensor]


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description="Private steps beside the plain one.")
    parser.add_argument("--profile", default="small", choices=("tiny", "small", "paper"))
    parser.add_argument("--patients", type=int, default=14, help="in a step: .3 of mitdb's 47")
    parser.add_argument("--windows", type=int, default=8, help="of a patient")
    parser.add_argument("--repeats", type=int, default=9)
    parser.add_argument("--threads", type=int, default=2)
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    settings = compose_settings([f"profile={arguments.profile}"])
    table = Table("stage", "plain, s", "per patient", "per window", "peak MB",
                  title=f"{arguments.patients} patients of {arguments.windows} windows, profile "
                        f"{arguments.profile}, {arguments.threads} threads; ratios to plain")
    for stage in STAGES:
        taken = alternate(ways(stage, settings, arguments.patients, arguments.windows),
                          torch.device("cpu"), arguments.repeats)
        table.add_row(stage, f"{statistics.median(taken['plain']):.3f}",
                      *(f"{ratio(taken, name):.2f}" for name in ("patient", "window")),
                      f"{peak_mb(torch.device('cpu')):.0f}")
    console = Console()
    console.print(table)
    console.print(f"wanted per patient: at most {MAX_RATIO}", highlight=False)


def ways(stage: Stage, settings: Settings, patients: int,
         windows: int) -> dict[str, Callable[[], object]]:
    """A step of each kind on the same windows; the window step's Opacus hooks a copy."""
    from common.privacy.window_dp import privatise

    data = made(settings, patients * windows)
    loss, people = _loss(stage, settings), np.arange(len(data)).reshape(patients, windows)
    cpu = torch.device("cpu")

    def network() -> tuple[nn.Module, torch.optim.AdamW]:
        net = build(stage, settings, settings.leads, 2, 0).train()
        return net, torch.optim.AdamW(net.parameters(), lr=1e-3)

    plain, plain_step = network()
    patient, patient_step = network()
    hooked, hooked_step = privatise(*network(), sigma=SIGMA, clip=CLIP, expected_batch=len(data))

    def by_patient() -> None:
        total = PatientSum(patient, CLIP)
        for rows in people:
            total.add(loss(patient, data.batch(rows, cpu)))
        total.release(SIGMA, patients)
        patient_step.step()

    return {"plain": partial(_step, plain, plain_step, loss, data, people.ravel()),
            "patient": by_patient,
            "window": partial(_step, hooked, hooked_step, loss, data, people.ravel())}


def _step(network: nn.Module, optimizer: torch.optim.Optimizer, loss: StageLoss, data: Labelled,
          rows: np.ndarray) -> None:
    optimizer.zero_grad()
    loss(network, data.batch(rows, torch.device("cpu"))).mean().backward()  # type: ignore[no-untyped-call]
    optimizer.step()


def _loss(stage: Stage, settings: Settings) -> StageLoss:
    if stage == "anonymizer":
        frozen = networks(settings, torch.device("cpu"))[1]
        return lambda net, b: rean_loss(net, b, frozen, settings.rean)
    if stage == "diagnosis":
        return lambda net, b: allowed_loss(net(b["x"]), b["allowed"])
    return lambda net, b: masked_loss(net(b["x"]), b[stage])


def ratio(taken: Mapping[str, Sequence[float]], name: str) -> float:
    """A way over the plain step: the median of the repeats' ratios."""
    return statistics.median(one / bare for one, bare in zip(taken[name], taken["plain"],
                                                             strict=True))


if __name__ == "__main__":
    main()
