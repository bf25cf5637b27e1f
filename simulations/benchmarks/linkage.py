"""The fingerprint attack beside a dataframe engine's group-by of the same rows.

    python -m simulations.benchmarks.linkage --people 10000000
    python -m simulations.benchmarks.linkage --people 250000000 --alone
"""

from __future__ import annotations

import argparse
import importlib.util
import resource
import time

import numpy as np
from rich.console import Console
from rich.table import Table

from common.linkage.fingerprint_attack import attack
from common.linkage.keys import Q_MASK, TOKENS, Keys, group_mask, keys
from simulations.population import TRISTATE, draw, load

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
    parser = argparse.ArgumentParser(description="The attack beside duckdb on the same rows.")
    parser.add_argument("--people", type=int, default=2_560_000)
    parser.add_argument("--token", default="B", choices=TOKENS)
    parser.add_argument("--alone", action="store_true", help="without duckdb")
    arguments = parser.parse_args()
    load()
    begun = time.perf_counter()
    people = draw(arguments.people, 0, TRISTATE)
    drawn = time.perf_counter()
    made, mask = keys(arguments.token, people), group_mask(arguments.token)
    del people
    packed = time.perf_counter()
    copy = None if arguments.alone else made.copy()
    started = time.perf_counter()
    risk = attack(made, mask)
    ours = time.perf_counter() - started
    table = Table("", "seconds", "re-identified",
                  title=f"{arguments.people} synthetic people, token {arguments.token}")
    table.add_row("draw", f"{drawn - begun:.1f}")
    table.add_row("pack", f"{packed - drawn:.1f}")
    table.add_row("attack", f"{ours:.2f}", f"{risk.reidentified:.6f}")
    if copy is not None and importlib.util.find_spec("duckdb"):
        theirs, share = engine(copy, mask)
        table.add_row("duckdb", f"{theirs:.2f}", f"{share:.6f}")
        table.add_row("ratio", f"{theirs / ours:.1f}")
    console = Console()
    console.print(table)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    console.print(f"peak {peak:.2f} GB; wanted of token B: 3 s per 10 million people, at least 3 "
                  "times as fast", highlight=False)


def engine(made: Keys, mask: np.uint64) -> tuple[float, float]:
    """(seconds, re-identified share) of the same question asked of duckdb."""
    import duckdb
    import pyarrow

    t = pyarrow.table({"token": made & mask, "q": made & Q_MASK})  # noqa: F841
    started = time.perf_counter()
    answer = duckdb.sql(_QUERY)
    assert answer is not None
    found = int(answer.fetchall()[0][0])
    return time.perf_counter() - started, found / len(made)


if __name__ == "__main__":
    main()
