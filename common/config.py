"""Settings of a run: plain dataclasses, each value checked where it is made.

simulations/conf gives the defaults per profile and privacy unit; Hydra overrides change single
values. common/scenarios.py says which combinations make sense.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, fields
from typing import Any

from common.errors import InputError
from common.protocol import ATTACKS, ENCODERS, STAGES, TRAINABLE, Stage
from common.scenarios import scenario_of


def _check(name: str, value: Any, ok: bool, allowed: str) -> None:
    if not ok:
        raise InputError(f"{name} is {value!r}; allowed: {allowed}")


def _one_of(name: str, value: str, choices: Sequence[str]) -> None:
    _check(name, value, value in choices, ", ".join(choices))


@dataclass(frozen=True)
class Profile:
    """How large the windows and networks are; `paper` is the REAN paper's own size."""

    name: str = "tiny"
    sampling_rate: int = 100  # Hz
    seconds: float = 8.0  # window length, s
    patch: int = 20  # ECGViT patch, samples
    vit_width: int = 64
    vit_depth: int = 2
    vit_heads: int = 4
    vit_mlp: int = 64
    vit_survival: float = 0.9  # stochastic depth: probability that the last block is kept
    resnet_width: int = 16
    unet_width: int = 8
    unet_levels: int = 4

    def __post_init__(self) -> None:
        _check("profile.sampling_rate", self.sampling_rate, 50 <= self.sampling_rate <= 1000,
               "50 to 1000 Hz")
        _check("profile.seconds", self.seconds, 2 <= self.seconds <= 60, "2 to 60 s")
        _check("profile.patch", self.patch, self.length % self.patch == 0,
               f"a divisor of the window length, {self.length} samples")
        _check("profile.vit_heads", self.vit_heads, self.vit_width % self.vit_heads == 0,
               f"a divisor of vit_width = {self.vit_width}")
        _check("profile.vit_survival", self.vit_survival, 0 < self.vit_survival <= 1, "(0, 1]")
        factor = 2 ** (self.unet_levels - 1)
        _check("profile.unet_levels", self.unet_levels, self.length % factor == 0,
               f"levels whose 2^(levels-1) divides {self.length} samples")

    @property
    def length(self) -> int:
        """Samples in a window."""
        return round(self.sampling_rate * self.seconds)


@dataclass(frozen=True)
class Privacy:
    """What is protected, and how much of it may be spent.

    `epsilon` is the target over *all* stages and rounds of the run; `cap` is what the hospital's
    ledger allows over all runs, per unit (0 = as much as epsilon). Those below `cap` are of unit
    patient alone: a step draws each patient with probability `q`, and takes at most `windows` of
    his; all are public, and so is the number of patients that a step is divided by.
    """

    unit: str = "none"
    epsilon: float = 8.0
    delta: float = 1e-5
    clip: float = 1.0  # L2 norm of one window's, or patient's, gradient
    cap: float = 0.0
    q: float = 0.3
    windows: int = 8
    cohort: int = 0  # patients that a hospital's step is divided by, over q; 0: as many as it has
    trust: str = "hospital"  # each update is private on its own; aggregate: only their sum is
    missing: int = 0  # of trust aggregate: hospitals that may fail, for which the others make up
    public: int = 16  # synthetic people whom the identity network tells patients from
    sites: int = 0  # hospitals that a linked patient is at, at most; 0: not linked
    canaries: int = 0  # made-up patients of each hospital who prove a lower bound on epsilon
    # How much more a step of a stage may spend than others: sigma there falls by the root of it.
    split: dict[str, float] = field(default_factory=lambda: dict.fromkeys(STAGES, 1.0))
    noise: str = "secure"  # ChaCha20 of the operating system's keys; fast: torch's, to simulate

    def __post_init__(self) -> None:
        _one_of("privacy.unit", self.unit, ("none", "window", "patient"))
        _check("privacy.q", self.q, 0 < self.q <= 1, "(0, 1]")
        _check("privacy.windows", self.windows, 1 <= self.windows <= 4096, "1 to 4096")
        _check("privacy.cohort", self.cohort, self.cohort >= 0, ">= 0 (0: as many as it has)")
        _one_of("privacy.trust", self.trust, ("hospital", "aggregate"))
        _check("privacy.trust", self.trust, self.trust == "hospital" or self.unit == "patient",
               f"hospital where privacy.unit is {self.unit!r}")
        _check("privacy.missing", self.missing, self.missing >= 0, ">= 0")
        _check("privacy.public", self.public, 2 <= self.public <= 9000, "2 to 9000")
        _check("privacy.sites", self.sites, self.sites == 0 or (
            1 <= self.sites <= 1000 and self.unit == "patient" and self.trust == "hospital"),
            "0, or 1 to 1000 where privacy.unit is 'patient' and trust 'hospital', as noise on the "
            "sum is calibrated for a patient of one hospital")
        _check("privacy.canaries", self.canaries, self.canaries == 0 or
               (5 <= self.canaries <= 100_000 and self.unit == "patient"
                and self.trust == "hospital"),
               "0, or 5 to 100000 where privacy.unit is 'patient' and trust 'hospital', as a "
               "hospital sees no sum over hospitals")
        _check("privacy.split", self.split, set(self.split) == set(STAGES)
               and all(isinstance(w, int | float) and 0 < w < 1e6 for w in self.split.values()),
               f"a number above 0 for each of {', '.join(STAGES)}")
        _one_of("privacy.noise", self.noise, ("secure", "fast"))
        _check("privacy.epsilon", self.epsilon, 0 < self.epsilon <= 1000, "(0, 1000]")
        _check("privacy.delta", self.delta, 0 < self.delta < 1e-2, "(0, 0.01)")
        _check("privacy.clip", self.clip, self.clip > 0, "> 0")
        _check("privacy.cap", self.cap, self.cap >= 0, ">= 0 (0: the cap is epsilon)")


@dataclass(frozen=True)
class Training:
    """Rounds, local epochs, batch and AdamW settings of one stage."""

    rounds: int = 3
    epochs: int = 3
    batch: int = 32
    lr: float = 1e-3
    weight_decay: float = 1e-4

    def __post_init__(self) -> None:
        for name in ("rounds", "epochs", "batch"):
            _check(name, getattr(self, name), getattr(self, name) >= 1, ">= 1")
        _check("lr", self.lr, 0 < self.lr < 1, "(0, 1)")
        _check("weight_decay", self.weight_decay, 0 <= self.weight_decay < 1, "[0, 1)")


@dataclass(frozen=True)
class Rean:
    """The anonymizer's bound and loss weights (REAN paper, section III)."""

    bound: float = 0.08  # largest change of a sample, in the window's [0, 1] range
    utility: float = 1.51
    privacy: float = 0.153
    prd: float = 0.323  # on PRD as a ratio
    l1: float = 1.46
    ceiling: float = 0.0  # nats at which a privacy loss counts no further; 0: never (the paper)
    windows: int = 0  # of the balanced training set; 0: every training window
    target: str = "away"  # away (the paper's), uniform or decoy: what hides an attribute

    def __post_init__(self) -> None:
        _check("rean.windows", self.windows, self.windows >= 0, ">= 0 (0: every window)")
        _one_of("rean.target", self.target, ("away", "uniform", "decoy"))
        _check("rean.bound", self.bound, 0 < self.bound <= 1, "(0, 1]")
        for name in ("utility", "privacy", "prd", "l1", "ceiling"):
            _check(f"rean.{name}", getattr(self, name), getattr(self, name) >= 0, ">= 0")


@dataclass(frozen=True)
class Audit:
    """How hard the auditor tries."""

    steps: int = 1000  # of each attacker: a small audit must not mean a weak attacker
    batch: int = 32
    lr: float = 4e-3
    width: int = 8  # of the auditor's networks
    seeds: int = 1  # networks of each architecture, where an attack trains several
    references: int = 4  # models of each stage that RMIA compares with; an even number
    shadows: int = 16  # diagnosis models that LiRA compares with; an even number
    examples: bool = False  # print waveforms of real patients in the report
    attacks: list[str] = field(default_factory=lambda: ["identification", "membership"])
    encoders: list[str] = field(default_factory=lambda: ["classifier"])  # of identification

    def __post_init__(self) -> None:
        for name in ("steps", "batch", "width", "seeds"):
            _check(f"audit.{name}", getattr(self, name), getattr(self, name) >= 1, ">= 1")
        _check("audit.lr", self.lr, 0 < self.lr < 1, "(0, 1)")
        for name in ("references", "shadows"):  # each patient is in exactly half of them
            value = getattr(self, name)
            _check(f"audit.{name}", value, 2 <= value <= 256 and value % 2 == 0,
                   "even numbers, 2 to 256")
        _check("audit.attacks", self.attacks, set(self.attacks) <= set(ATTACKS),
               f"any of {', '.join(ATTACKS)}")
        _check("audit.encoders", self.encoders, set(self.encoders) <= set(ENCODERS),
               f"any of {', '.join(ENCODERS)}")


@dataclass(frozen=True)
class Cohort:
    """The embedded synthetic cohort that is used where `hospitals` is empty."""

    patients: int = 6  # per hospital
    minutes: float = 12.0
    shift: float = 0.0  # how far they differ from the population of public windows, 0 to 1


@dataclass(frozen=True)
class Settings:
    """Everything that decides a run's numbers. `fedrean simulate --help` lists them."""

    hospitals: list[str] = field(default_factory=list)  # hospital files; empty: embedded cohort
    cohort: Cohort = field(default_factory=Cohort)
    training: str = "federated"
    engine: str = "inprocess"  # inprocess and ray simulate; grpc is a deployment
    device: str = "auto"
    threads: int = 2  # CPU threads a training process uses; part of what makes runs repeatable
    seed: int = 0
    labels: str = "strict"
    leads: int = 1  # of a window; every hospital file must name as many
    reserved: float = 0.15  # share of patients that no training sees
    slots: int = 0  # rows of an identity head; 0: as many as the hospital has patients
    identity_by: str = "slots"  # a head that stays in the hospital, or an embedding without rows
    start: str = ""  # run whose models training starts from, such as one on public records
    trainable: str = "all"  # layers that training changes: all, norms (and the last), last, none
    profile: Profile = field(default_factory=Profile)
    privacy: Privacy = field(default_factory=Privacy)
    diagnosis: Training = field(default_factory=Training)
    identity: Training = field(default_factory=Training)
    sex: Training = field(default_factory=Training)
    age: Training = field(default_factory=Training)
    anonymizer: Training = field(default_factory=Training)
    rean: Rean = field(default_factory=Rean)
    audit: Audit = field(default_factory=Audit)

    def __post_init__(self) -> None:
        _one_of("training", self.training, ("federated", "pooled", "local"))
        _one_of("engine", self.engine, ("inprocess", "ray", "grpc"))
        _one_of("device", self.device, ("auto", "cpu", "cuda"))
        _one_of("labels", self.labels, ("strict", "paper"))
        _check("threads", self.threads, 1 <= self.threads <= 256, "1 to 256")
        _check("reserved", self.reserved, 0 <= self.reserved <= 0.5, "0 to 0.5")
        _check("seed", self.seed, 0 <= self.seed < 2**31, "0 to 2^31 - 1")
        _check("leads", self.leads, 1 <= self.leads <= 32, "1 to 32")
        _check("slots", self.slots, self.slots >= 0, ">= 0")
        _one_of("trainable", self.trainable, TRAINABLE)
        _one_of("identity_by", self.identity_by, ("slots", "embedding"))
        _check("trainable", self.trainable, self.trainable != "none" or
               bool(self.start and self.identity_by == "embedding"), "none only with start=RUN and "
               "identity_by=embedding, as a head of slots has nobody's rows before it is trained")
        # A row of a head would be one patient's own: no noise on it could hide him. An embedding
        # is trained by comparing windows, so that no gradient would be one window's own.
        needed = {"patient": "embedding", "window": "slots"}.get(self.privacy.unit)
        _check("identity_by", self.identity_by, needed in (None, self.identity_by),
               f"{needed} where privacy.unit is {self.privacy.unit!r}")
        _check("privacy.noise", self.privacy.noise, self.privacy.noise == "secure"
               or self.engine != "grpc", "secure in a deployment")
        scenario_of(self.training, self.privacy.unit, self.engine, self.privacy.trust)
        # A set balanced by class changes in many places when one window comes or goes.
        _check("rean.windows", self.rean.windows, not self.rean.windows
               or self.privacy.unit == "none", f"0 where privacy.unit is {self.privacy.unit!r}")

        # They retrain the identity head, which is absent there.
        absent = {"membership_references", "inversion"} & set(self.audit.attacks)
        _check("audit.attacks", self.audit.attacks, not absent or self.identity_by == "slots",
               f"none of {', '.join(sorted(absent))} where identity_by is 'embedding'")

    def stage(self, stage: Stage) -> Training:
        """Training settings of one stage."""
        training: Training = getattr(self, stage)
        return training

    def as_dict(self) -> dict[str, Any]:
        """Plain nested dict, as it is stored in config.yaml and sent to hospitals."""
        return asdict(self)


_NESTED: dict[str, type[Any]] = {
    "cohort": Cohort, "profile": Profile, "privacy": Privacy, "rean": Rean, "audit": Audit,
    **dict.fromkeys(STAGES, Training),
}


def settings_from(tree: dict[str, Any]) -> Settings:
    """Settings from a plain nested dict; an unknown key raises InputError."""
    values: dict[str, Any] = {}
    for key, value in tree.items():
        kind = _NESTED.get(key)
        values[str(key)] = _make(kind, value, key) if kind else value
    made = _make(Settings, values, "settings")
    assert isinstance(made, Settings)
    return made


_TYPES: dict[str, tuple[type[Any], ...]] = {
    "int": (int,), "float": (int, float), "str": (str,), "bool": (bool,), "list[str]": (list,),
    "dict[str, float]": (dict,)}


def _make(kind: type[Any], values: Any, where: str) -> Any:
    types = {f.name: str(f.type) for f in fields(kind)}
    _check(where, values, isinstance(values, dict), f"keys {', '.join(types)}")
    for key, value in values.items():
        _check(f"{where} key", key, key in types, ", ".join(types))
        name = key if kind is Settings else f"{where}.{key}"
        _check(name, value, _fits(value, types[key]), f"a value of type {types[key]}")
    return kind(**values)


def _fits(value: Any, kind: str) -> bool:
    """Whether a value has the annotated type; nested settings were made before."""
    if kind not in _TYPES:
        return True
    if isinstance(value, bool):
        return kind == "bool"
    if kind == "list[str]":
        return isinstance(value, list) and all(isinstance(item, str) for item in value)
    return isinstance(value, _TYPES[kind])
