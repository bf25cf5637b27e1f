"""Flower's Ray engine: hospitals train in several processes, on one host or many.

The numbers are those of the in-process grid. Checked on flwr 1.39.0 and ray 2.55.1.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from types import MethodType

import ray
import torch
from flwr.app import Context, Message
from flwr.clientapp import ClientApp
from flwr.server.superlink.fleet.vce.backend import BackendConfig
from flwr.serverapp import Grid, ServerApp
from flwr.simulation import run_simulation

from common.config import Settings
from common.training import device_of

_QUIET = {"RAY_USAGE_STATS_ENABLED": "0", "FLWR_TELEMETRY_ENABLED": "0",
          "OMP_WAIT_POLICY": "PASSIVE",  # threads that spin starve the other workers
          "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0"}  # silences a warning


def run_on_ray(app: ClientApp, nodes: int, settings: Settings,
               main: Callable[[Grid], None]) -> None:
    """Run `main` on a grid of `nodes` hospitals, node i with `partition-id` i.

    What main raises is raised here. Flower runs in a thread of its own, so that this one
    is free to see Ctrl-C. After a KeyboardInterrupt Ray's processes are gone, but
    threads of Flower may be left that wait for ever; the command line exits without them.
    """
    outcome: list[BaseException] = []
    stop = threading.Event()
    server = ServerApp()

    @server.main()
    def run(grid: Grid, context: Context) -> None:
        try:
            main(_stoppable(grid, stop))
        except BaseException as error:
            outcome.append(error)

    def simulate() -> None:
        try:
            run_simulation(server, app, nodes, backend_config=_resources(nodes, settings))
        except BaseException as error:  # where main failed first, Ray failed because of it
            outcome.append(error)

    with _quiet():
        flower = threading.Thread(target=simulate, daemon=True)
        flower.start()
        try:
            while flower.is_alive():
                flower.join(0.2)
        except KeyboardInterrupt:
            stop.set()
            logging.getLogger("flwr").disabled = True  # a traceback for every actor that ends
            ray.shutdown()
            flower.join(10)
            raise
    if outcome:
        raise outcome[0]


def _stoppable(grid: Grid, stop: threading.Event) -> Grid:
    """Make the grid raise once the run was stopped.

    Flower runs main in a thread that polls for replies: after Ctrl-C or a crash of Ray it would
    poll for ever and keep the process alive.
    """
    pull = grid.pull_messages

    def pull_messages(self: Grid, message_ids: Iterable[str]) -> Iterable[Message]:
        if stop.is_set():
            raise ConnectionAbortedError("the simulation was stopped")
        return pull(message_ids)

    grid.pull_messages = MethodType(pull_messages, grid)  # type: ignore[method-assign]
    return grid


def _resources(nodes: int, settings: Settings) -> BackendConfig:
    """CPUs and GPUs of Ray and of each hospital; no more processes than hospitals."""
    host = os.cpu_count() or 1
    threads = min(settings.threads, host)
    parallel = max(1, min(nodes, host // threads))
    cuda = device_of(settings.device).type == "cuda"
    gpus = torch.cuda.device_count() if cuda else 0
    # Rounded down to Ray's resolution, so that `parallel` hospitals fit.
    share = min(1.0, int(1e4 * gpus / parallel) / 1e4)
    return {"init_args": {"num_cpus": parallel * threads, "num_gpus": gpus,
                          "include_dashboard": False, "log_to_driver": False,
                          "logging_level": "error"},
            "client_resources": {"num_cpus": threads, "num_gpus": share}}


@contextmanager
def _quiet() -> Iterator[None]:
    """Silence Flower and Ray but for errors; Ray's workers inherit the environment."""
    before, logger = dict(os.environ), logging.getLogger("flwr")
    level = logger.level
    os.environ.update(_QUIET)
    logger.disabled = False
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(level)
        os.environ.clear()
        os.environ.update(before)
