"""What an attacker can do with a release, attack by attack, beside the attack's own strength."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from common.errors import InputError
from server.learned import FEW

Leaf = dict[str, Any]
GATES = ("reid", "sex", "age", "recording")


@dataclass(frozen=True)
class Finding:
    """One attack.

    Args:
        kind: what it tells, one of `GATES`.
        attack: what was done.
        released: its leaf on released windows.
        clean: the same attack's on clean windows, which shows its strength; None where it has none.
    """

    kind: str
    attack: str
    released: Leaf
    clean: Leaf | None

    @property
    def told(self) -> float:
        """What is told; an attacker who is always wrong on sex is always right when he flips it."""
        value = self.released["value"]
        if value is None:
            return 0.0
        return max(value, 1 - value) if self.kind == "sex" else float(value)


def findings(metrics: dict[str, Any]) -> list[Finding]:
    """All that were measured, the strongest of each kind first; of equals that of most windows.

    Those of a handful of windows come last: a share of two says little, of either side.
    """
    found = [one for one in _all(metrics) if one.released["value"] is not None]
    return sorted(found, key=lambda one: (GATES.index(one.kind), one.released["n"] < FEW,
                                             -one.told, -one.released["n"]))


def _all(metrics: dict[str, Any]) -> Iterator[Finding]:
    if "clean" in metrics:  # embeddings have no networks that answer
        yield from _networks(metrics)
    yield from _identification(metrics)
    for how in ("rhythm", "waveform"):
        if "recording" in metrics:
            yield Finding("recording", f"own window found by its {how}", metrics["recording"][how],
                          None)


def _networks(metrics: dict[str, Any]) -> Iterator[Finding]:
    clean = metrics["clean"]
    row = next(iter(metrics["anonymizers"].values()))
    for kind in ("reid", "sex", "age"):
        yield Finding(kind, "network trained on clean windows", row[kind], clean[kind])
        for share, networks in row["retrained"].items():
            for name, one in networks.items():
                yield Finding(kind, f"network retrained, {share} % anonymized ({name})", one[kind],
                              clean[kind])
        yield from _mixes(metrics, kind)
        for name in ("unseen", "purified"):
            for which, one in metrics.get(name, {}).items():
                if isinstance(one, dict) and "released" in one:
                    yield Finding(kind, f"{name}: {which}", one["released"][kind],
                                  one["clean"][kind])


def _mixes(metrics: dict[str, Any], kind: str) -> Iterator[Finding]:
    tree = metrics.get("retraining", {})
    for share, networks in tree.get("mixes", {}).items():
        for name, kinds in networks.items():
            for which, one in kinds.items():
                if (share, name) != ("100", "resnet1d"):  # which every audit does
                    yield Finding(kind, f"network retrained, {share} % anonymized, {which} "
                                        f"({name})", one[kind], tree["clean"][name][kind])


def _identification(metrics: dict[str, Any]) -> Iterator[Finding]:
    for protocol, encoders in metrics.get("identification", {}).items():
        for encoder, pairs in encoders.items():
            for pair, one in pairs.items():
                if pair != "clean":
                    how = f"{protocol}, {encoder}, {pair}"
                    yield Finding("reid", f"nearest window, {how}", one["top1"],
                                  pairs["clean"]["top1"])
                    for kind in ("sex", "age"):
                        for who, leaf in one[kind].items():
                            yield Finding(kind, f"linear probe of {who}, {how}", leaf,
                                          pairs["clean"][kind][who])


def of_kind(found: Sequence[Finding], kind: str) -> list[Finding]:
    """Those that tell one kind of thing, in their order."""
    return [one for one in found if one.kind == kind]


def parse_gates(texts: Sequence[str]) -> dict[str, float]:
    """`["reid=0.1"]` -> {"reid": 0.1}.

    Raises:
        InputError: no such kind, or no number in [0, 1].
    """
    gates = {}
    for text in texts:
        kind, _, number = text.partition("=")
        try:
            limit = float(number)
        except ValueError:
            limit = -1.0
        if kind not in GATES or not 0 <= limit <= 1:
            raise InputError(f"fail-above is {text!r}; allowed is KIND=SHARE, KIND one of "
                             f"{', '.join(GATES)}, SHARE 0 to 1")
        gates[kind] = limit
    return gates


def failures(found: Sequence[Finding], gates: dict[str, float]) -> list[str]:
    """A line for each gate that an attack passes, and for each that nothing was measured for."""
    lines = []
    for kind, limit in gates.items():
        told = of_kind(found, kind)
        if not told:
            lines.append(f"{kind}: nothing was measured, so {limit:g} is not shown to hold")
        for one in told[:1]:
            if one.told > limit:
                lines.append(f"{kind}: {one.told:.3f} by {one.attack}; allowed is {limit:g}")
    return lines
