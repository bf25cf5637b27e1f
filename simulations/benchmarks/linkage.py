"""The fingerprint attack beside the same question asked of two dataframe engines.

    python -m simulations.benchmarks.linkage --people 10000000
    python -m simulations.benchmarks.linkage --people 250000000 --alone
    python -m simulations.benchmarks.linkage --people 250000000 --alone --token C
    python -m simulations.benchmarks.linkage --people 25000000 --times 4

Each way reads the same rows in a process of its own, so that its peak memory is its own.
"""

from __future__ import annotations

import argparse
import importlib.util
import multiprocessing
import resource
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

from common.linkage.containment import attack_contained
from common.linkage.fingerprint_attack import attack
from common.linkage.keys import Q_MASK, TOKENS, Keys, group_mask
from simulations.population import TRISTATE, Population

Answer = tuple[float, float, float]  # seconds, re-identified share, peak memory in GB
_QUERY = """
with g as (select token, count(*) as size, sum(hash(q)::uint128) as print from t group by token),
     once as (select print, size from g group by print, size having count(*) = 1),
     known as (select token from g semi join once using (print, size)),
     alone as (select q from t group by q having count(*) = 1),
     inside as (select token, q from t group by token, q having count(*) = 1)
select count(*) from inside semi join known using (token) anti join alone using (q)
"""


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description="The attack beside polars and duckdb.")
    parser.add_argument("--people", type=int, default=2_560_000, help="whose tokens are released")
    parser.add_argument("--token", default="B", choices=TOKENS)
    parser.add_argument("--times", type=int, default=1, help="size of the reference over theirs")
    parser.add_argument("--alone", action="store_true", help="the attack only")
    arguments = parser.parse_args()
    token, times = arguments.token, arguments.times
    begun = time.perf_counter()
    of = Population(arguments.people * times, 0, TRISTATE if times == 1 else "national")
    made, mask = of.keys(token)[token], group_mask(token)
    console, table = Console(), Table("", "seconds", "re-identified", "peak GB", "of ours")
    table.add_row("draw and pack", f"{time.perf_counter() - begun:.1f}", "", f"{peak():.1f}", "")
    if times > 1:
        answer = timed(lambda: attack_contained(made[: arguments.people].copy(), made, mask)
                       .reidentified)
        table.add_row(f"attack, reference {times} times as large", *_shown(answer, answer))
    elif arguments.alone:
        answer = timed(lambda: attack(made, mask).reidentified)
        table.add_row("attack", *_shown(answer, answer))
    else:
        answers = _each(made, mask)
        for name, answer in answers.items():
            table.add_row(name, *_shown(answer, answers["attack"]))
    table.title = f"{arguments.people:,} synthetic people, token {token}: not a voter registry"
    console.print(table)
    console.print("wanted of token B: 3 s per 10 million people, and at least 3 times as fast as "
                  "an engine", highlight=False)


def _each(made: Keys, mask: np.uint64) -> dict[str, Answer]:
    """Every way on the same rows, one after the other."""
    found = {}
    with tempfile.TemporaryDirectory(prefix="fedrean-bench-") as folder:
        file = Path(folder) / "keys.npy"
        np.save(file, made)
        for name in WAYS:
            if name == "attack" or importlib.util.find_spec(name):
                with multiprocessing.get_context("spawn").Pool(1) as pool:
                    found[name] = pool.apply(_asked, (name, file, mask))
    return found


def _asked(name: str, file: Path, mask: np.uint64) -> Answer:
    keys: Keys = np.load(file)
    if name != "attack":
        importlib.import_module(name)  # which takes a second, and is not what is measured
    return timed(lambda: WAYS[name](keys, mask))


def timed(ask: Callable[[], float]) -> Answer:
    """What a question takes; peak memory is that of the process so far."""
    started = time.perf_counter()
    share = ask()
    return time.perf_counter() - started, share, peak()


def peak() -> float:
    """Largest memory of this process, GB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6


def _attack(keys: Keys, mask: np.uint64) -> float:
    return attack(keys, mask).reidentified


def _polars(keys: Keys, mask: np.uint64) -> float:
    import polars as pl

    t = pl.DataFrame({"token": keys & mask, "q": keys & Q_MASK}).lazy()
    g = t.group_by("token").agg(pl.len().alias("size"), pl.col("q").hash().sum().alias("print"))
    once = g.group_by("print", "size").len().filter(pl.col("len") == 1)
    known = g.join(once, on=["print", "size"], how="semi")
    alone = t.group_by("q").len().filter(pl.col("len") == 1)
    inside = t.group_by("token", "q").len().filter(pl.col("len") == 1)
    told = inside.join(known, on="token", how="semi").join(alone, on="q", how="anti")
    return int(told.select(pl.len()).collect().item()) / len(keys)


def _duckdb(keys: Keys, mask: np.uint64) -> float:
    import duckdb
    import pyarrow

    t = pyarrow.table({"token": keys & mask, "q": keys & Q_MASK})  # noqa: F841
    answer = duckdb.sql(_QUERY)
    assert answer is not None
    return int(answer.fetchall()[0][0]) / len(keys)


WAYS: dict[str, Callable[[Keys, np.uint64], float]] = {
    "attack": _attack, "polars": _polars, "duckdb": _duckdb}


def _shown(found: Answer, ours: Answer) -> list[str]:
    return [f"{found[0]:.2f}", f"{found[1]:.6f}", f"{found[2]:.1f}", f"{found[0] / ours[0]:.1f}"]


if __name__ == "__main__":
    main()
