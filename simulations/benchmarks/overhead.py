"""The in-process federation against a bare PyTorch loop that makes the same steps.

The bare loop copies the average into each hospital's network, trains it with AdamW on the same
batches, and averages: no messages, ledger, checkpoint or hash. The two ways alternate, so that a
busy machine slows them alike.
"""

from __future__ import annotations

import argparse
import copy
import logging
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from rich.console import Console
from rich.table import Table
from torch import Tensor, nn

from client.client_app import make_client_app
from client.hospital import Hospital
from client.ledger import Ledger
from client.node import Node
from common.config import Settings
from common.models.classifier import load_shared, shared_state
from common.protocol import Stage
from common.training import shifted, shuffled
from server.overrides import compose_settings
from server.workflow import Workflow
from simulations.consortium import Site, prepare_sites
from simulations.in_process_grid import InProcessGrid

MAX_RATIO = 1.15
STAGES: tuple[Stage, ...] = ("diagnosis", "sex")  # a ResNet1D and an ECGViT


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description="In-process federation against a bare loop.")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--threads", type=int, default=2)
    arguments = parser.parse_args()
    logging.getLogger("flwr").setLevel(logging.ERROR)
    settings = compose_settings([
        f"threads={arguments.threads}", "device=cpu",
        *(f"{stage}.{what}={n}" for stage in STAGES for what, n in (("rounds", 2), ("epochs", 3)))])
    torch.set_num_threads(settings.threads)
    with tempfile.TemporaryDirectory(prefix="fedrean-bench-") as name:
        folder = Path(name)
        sites, _ = prepare_sites(settings, folder, lambda *_: None)
        table = Table(title=f"{len(sites)} hospitals, 2 rounds of 3 epochs, median of "
                            f"{arguments.repeats}")
        for title in ("stage", "bare loop s", "federation s", "ratio", "CPU ratio", "allowed"):
            table.add_column(title)
        for stage in STAGES:
            bare, ours = measure(stage, settings, sites, folder, arguments.repeats)
            table.add_row(stage, f"{bare[0]:.2f}", f"{ours[0]:.2f}",
                          *(f"{b / a:.3f}" for a, b in zip(bare, ours, strict=True)),
                          f"{MAX_RATIO}")
        Console().print(table)


def measure(stage: Stage, settings: Settings, sites: list[Site], folder: Path,
            repeats: int) -> tuple[list[float], list[float]]:
    """Median (wall, CPU) seconds of the bare loop and of the federation."""
    taken: tuple[list[tuple[float, float]], list[tuple[float, float]]] = ([], [])
    for number in range(repeats + 1):  # the first pair warms caches and is dropped
        run = folder / f"{stage}-{number}"
        ways: tuple[Callable[[], None], ...] = (
            bare_loop(stage, settings, sites, run / "bare"),
            federation(stage, settings, sites, run / "ours"))
        for times, way in zip(taken, ways, strict=True):
            wall, cpu = time.perf_counter(), time.process_time()
            way()
            times.append((time.perf_counter() - wall, time.process_time() - cpu))
    bare, ours = ([statistics.median(column) for column in zip(*times[1:], strict=True)]
                  for times in taken)
    return bare, ours


def _hospital(site: Site, settings: Settings, folder: Path) -> Hospital:
    return Hospital(site.name, site.store, folder, Ledger(folder / f"{site.name}.sqlite"), settings,
                    "run")


def bare_loop(stage: Stage, settings: Settings, sites: list[Site],
              folder: Path) -> Callable[[], None]:
    """The same steps without federation; what is prepared here is not timed."""
    folder.mkdir(parents=True)
    hospitals = [_hospital(site, settings, folder) for site in sites]
    rows = [hospital.usable(stage) for hospital in hospitals]
    training, loss = settings.stage(stage), hospitals[0].loss(stage, 1)
    network = hospitals[0].network(stage)

    def epoch_batches(n: int, seed: int, who: int, local: nn.Module) -> None:
        optimizer = torch.optim.AdamW(local.parameters(), lr=training.lr,
                                      weight_decay=training.weight_decay)
        generator = np.random.default_rng(seed)
        local.train()
        for batch in shuffled(n, training.batch, training.epochs, seed):
            optimizer.zero_grad()
            losses = loss(local, shifted(hospitals[who].fetch(rows[who][batch]), generator))
            losses.mean().backward()  # type: ignore[no-untyped-call]
            losses.sum().item()  # the mean loss of a round is part of the job
            optimizer.step()

    def go() -> None:
        state = shared_state(stage, network)
        for number in range(training.rounds):
            total: dict[str, Tensor] = {}
            count = sum(len(r) for r in rows)
            for who, mine in enumerate(rows):
                local = copy.deepcopy(network)
                load_shared(stage, local, state)
                epoch_batches(len(mine), number, who, local)
                for name, value in shared_state(stage, local).items():
                    total[name] = total.get(name, torch.zeros(())) + value * len(mine) / count
            state = total

    return go


def federation(stage: Stage, settings: Settings, sites: list[Site],
               folder: Path) -> Callable[[], None]:
    """The stage through ServerApp code, Flower messages and ClientApps."""
    (folder / "ledgers").mkdir(parents=True)
    nodes = [Node(site.name, state=str(folder / site.name), store=str(site.store.path),
                  ledger=str(folder / "ledgers" / f"{site.name}.sqlite")) for site in sites]
    app = make_client_app(lambda context: nodes[int(context.node_config["partition-id"])])
    grid = InProcessGrid(app, len(nodes))
    flow = Workflow(settings, "run", folder, len(nodes), lambda *_: None)
    return lambda: (flow.train(grid, stage, {}), None)[1]


if __name__ == "__main__":
    main()
