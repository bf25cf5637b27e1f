"""REAN's training step beside its networks alone, and its release beside REACT's.

The step is the one of `fit_network`: fetching, `rean_loss`, backward pass, AdamW. Alone, the U-Net
goes forward and backward, and each frozen network forward and back to its input, on the same
batch. Windows and weights are random: neither changes the time. The ways alternate, so that a busy
machine slows them alike; a ratio is the median of those within one repeat.
"""

from __future__ import annotations

import argparse
import resource
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial

import numpy as np
import torch
from rich.console import Console
from rich.table import Table
from torch import nn

from common.anonymizers.contract import Effort, Frozen, Labelled
from common.anonymizers.react import GROUP, React
from common.anonymizers.rean import ReanAnonymizer, rean_loss
from common.config import Settings
from common.ecg.beats import no_beats
from common.models.classifier import build
from common.protocol import AGE_BANDS, ARRHYTHMIA_CLASSES, CLASSIFIER_STAGES, SEXES, STAGES
from common.training import Schedule, device_of, train
from server.overrides import compose_settings

MAX_RATIO, MIN_SPEED = 1.15, 100.0
PATIENTS = 47  # of mitdb
Way = Callable[[], object]


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description="REAN's step and release beside what they do.")
    parser.add_argument("--profile", default="small", choices=("tiny", "small", "paper"))
    parser.add_argument("--repeats", type=int, default=15)
    parser.add_argument("--windows", type=int, default=64, help="that REAN and REACT release")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--device", default="cpu")
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    settings, device = compose_settings([f"profile={arguments.profile}"]), device_of(
        arguments.device)
    show_step(step_times(settings, device, arguments.repeats), settings, peak_mb(device))
    taken = release_times(settings, device, arguments.windows, min(3, arguments.repeats))
    show_release(taken, arguments.windows, peak_mb(device))


def made(settings: Settings, n: int) -> Labelled:
    """Random windows, `GROUP` in a row of one patient, which is REACT's best case."""
    generator = np.random.default_rng(0)
    classes = (PATIENTS, len(SEXES), len(AGE_BANDS))
    identity, sex, age = (generator.integers(0, c, n) for c in classes)
    return Labelled(generator.random((n, settings.leads, settings.profile.length), np.float32),
                    settings.profile.sampling_rate,
                    1 << generator.integers(0, len(ARRHYTHMIA_CLASSES), n), identity,
                    np.arange(n) // GROUP, sex, age, no_beats(n))


def networks(settings: Settings, device: torch.device) -> tuple[nn.Module, Frozen]:
    """The U-Net and the four frozen networks, of random weights."""
    *judges, unet = (build(stage, settings, settings.leads, PATIENTS, 0).to(device)
                     for stage in STAGES)
    return unet, Frozen(*judges).freeze()


def step_times(settings: Settings, device: torch.device, repeats: int) -> dict[str, list[float]]:
    """Seconds of each network alone and of the whole step, a repeat each."""
    unet, frozen = networks(settings, device)
    data = made(settings, settings.anonymizer.batch)
    rows = np.arange(len(data))
    x = data.batch(rows, device)["x"]  # (B, leads, L)
    parameters, lr = list(unet.parameters()), settings.anonymizer.lr
    optimizer = torch.optim.AdamW(parameters, lr=lr, weight_decay=1e-4)

    def alone(network: nn.Module, wanted: Sequence[torch.Tensor], x: torch.Tensor) -> None:
        torch.autograd.grad(network(x).sum(), wanted)

    def step() -> None:
        train(unet, optimizer, iter([rows]), lambda i: data.batch(i, device),
              lambda network, batch: rean_loss(network, batch, frozen, settings.rean),
              Schedule(lr, 0, repeats))

    leaf = x.clone().requires_grad_(True)
    ways: dict[str, Way] = {"U-Net": partial(alone, unet, parameters, x)}
    for stage in CLASSIFIER_STAGES:
        ways[stage] = partial(alone, getattr(frozen, stage), [leaf], leaf)
    return alternate({**ways, "step": step}, device, repeats)


def release_times(settings: Settings, device: torch.device, windows: int,
                  repeats: int) -> dict[str, list[float]]:
    """Seconds of releasing the same windows by REAN and by REACT, a repeat each."""
    unet, frozen = networks(settings, device)
    data, react = made(settings, windows), React()
    react.fit(data, frozen, Effort(1, device=device))
    rean = ReanAnonymizer(unet, settings.rean)
    return alternate({"REAN": partial(rean.anonymize, data),
                      "REACT": partial(react.anonymize, data)}, device, repeats)


def alternate(ways: Mapping[str, Way], device: torch.device,
              repeats: int) -> dict[str, list[float]]:
    """Seconds of each way, one after the other, `repeats` times; a first round is dropped."""
    taken: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(repeats + 1):
        for name, way in ways.items():
            started = time.perf_counter()
            way()
            if device.type == "cuda":
                torch.cuda.synchronize(device)
            taken[name].append(time.perf_counter() - started)
    return {name: times[1:] for name, times in taken.items()}


def step_ratio(taken: Mapping[str, list[float]]) -> float:
    """The step over the sum of its networks alone: the median of the repeats' ratios."""
    *parts, step = taken.values()
    return float(statistics.median(whole / sum(each)
                                   for whole, *each in zip(step, *parts, strict=True)))


def speed(taken: Mapping[str, list[float]]) -> float:
    """How many times faster REAN releases: the median of the repeats' ratios."""
    return statistics.median(slow / fast for fast, slow in zip(taken["REAN"], taken["REACT"],
                                                               strict=True))


def peak_mb(device: torch.device) -> float:
    """The most memory that this process has held so far, MB; of the GPU where it works on one."""
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device) / 1e6
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e6


def show_step(taken: Mapping[str, list[float]], settings: Settings, peak: float) -> None:
    """Print the step and its parts."""
    middle = {name: statistics.median(times) for name, times in taken.items()}
    profile = settings.profile
    table = Table(title=f"profile={profile.name}: {settings.anonymizer.batch} windows of "
                        f"{profile.length} samples, median of {len(taken['step'])}",
                  caption=f"peak memory {peak:.0f} MB")
    table.add_column("forward and backward")
    table.add_column("ms", justify="right")
    parts = [name for name in middle if name != "step"]
    for name in parts:
        table.add_row(name, f"{1000 * middle[name]:.1f}")
    table.add_row("sum", f"{1000 * sum(middle[name] for name in parts):.1f}", end_section=True)
    table.add_row("step", f"{1000 * middle['step']:.1f}")
    table.add_row(f"step / sum, allowed {MAX_RATIO}", f"{step_ratio(taken):.3f}")
    Console().print(table)


def show_release(taken: Mapping[str, list[float]], windows: int, peak: float) -> None:
    """Print what a window costs REAN and REACT."""
    table = Table(title=f"releasing {windows} windows, median of {len(taken['REAN'])}",
                  caption=f"peak memory {peak:.0f} MB")
    table.add_column("method")
    table.add_column("ms/window", justify="right")
    for name, times in taken.items():
        table.add_row(name, f"{1000 * statistics.median(times) / windows:.3f}")
    table.add_row(f"REACT / REAN, wanted {MIN_SPEED:.0f}", f"{speed(taken):.0f}")
    Console().print(table)


if __name__ == "__main__":
    main()
