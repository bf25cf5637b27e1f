"""The named scenarios: which combinations of settings make sense, and what each one guarantees."""

from __future__ import annotations

from dataclasses import dataclass

from common.errors import InputError


@dataclass(frozen=True)
class Scenario:
    """One supported combination and what it guarantees."""

    name: str
    training: str
    unit: str
    engines: tuple[str, ...]
    guarantee: str
    trust: str = "hospital"


SCENARIOS = (
    Scenario("open federation", "federated", "none", ("inprocess", "ray", "grpc"),
             "recordings stay in the hospital; updates carry no formal protection"),
    Scenario("window-private federation", "federated", "window", ("inprocess", "ray", "grpc"),
             "each update is (epsilon, delta)-private per window, noised inside the hospital; "
             "a patient is not bounded"),
    Scenario("patient-private federation", "federated", "patient", ("inprocess", "ray", "grpc"),
             "each update is (epsilon, delta)-private per patient of the hospital, noised inside "
             "it; a patient of several hospitals is bounded by the composition of theirs"),
    Scenario("aggregate-private federation", "federated", "patient", ("inprocess", "ray"),
             "only the sum of the hospitals' updates is (epsilon, delta)-private per patient: each "
             "adds a share of the noise, and the sum is formed in this process; in deployment, "
             "secure aggregation is what would make it real", trust="aggregate"),
    Scenario("pooled", "pooled", "none", ("inprocess", "ray"),
             "the paper's central set-up: recordings are pooled, nothing is protected"),
    Scenario("window-private pooled", "pooled", "window", ("inprocess", "ray"),
             "recordings are pooled; the models are (epsilon, delta)-private per window; "
             "a patient is not bounded"),
    Scenario("patient-private pooled", "pooled", "patient", ("inprocess", "ray"),
             "recordings are pooled; the models are (epsilon, delta)-private per patient"),
    Scenario("local", "local", "none", ("inprocess", "ray"),
             "each hospital trains alone; nothing is exchanged, nothing is protected"),
    Scenario("window-private local", "local", "window", ("inprocess", "ray"),
             "each hospital trains alone; its models are (epsilon, delta)-private per window; "
             "a patient is not bounded"),
    Scenario("patient-private local", "local", "patient", ("inprocess", "ray"),
             "each hospital trains alone; its models are (epsilon, delta)-private per patient"),
)


def scenario_of(training: str, unit: str, engine: str, trust: str = "hospital") -> Scenario:
    """The named scenario of a run.

    Raises:
        InputError: no scenario allows the combination; the message lists those that exist.
    """
    for scenario in SCENARIOS:
        asked = (training, unit, trust)
        if (scenario.training, scenario.unit, scenario.trust) == asked and \
                engine in scenario.engines:
            return scenario
    allowed = "; ".join(_said(s.training, s.unit, "|".join(s.engines), s.trust) for s in SCENARIOS)
    raise InputError(f"no scenario has {_said(training, unit, engine, trust)}; allowed: {allowed}")


def _said(training: str, unit: str, engine: str, trust: str) -> str:
    """The overrides that ask for it."""
    words = f"training={training} privacy={unit} engine={engine}"
    return words if trust == "hospital" else f"{words} privacy.trust={trust}"
