"""Names shared by hospitals, server and auditor, and the list of all that crosses the wire.

What a hospital sends, per training reply: the shared weights of one stage ("arrays"), the number
of training windows it declares ("num-examples"), its site name, and either nothing more or one of
the enumerated ERRORS. Every reply names the head of the hospital's ledger (number and hash of its
last event), which the server echoes with the next message. The mean training loss is added only
where `privacy.unit` is "none": it is computed on private windows and no accountant covers it.
Identity heads never leave.
"""

from __future__ import annotations

from typing import Final, Literal

ARRHYTHMIA_CLASSES: Final = ("Normal", "AFIB", "PVC", "SVE")
AGE_BANDS: Final = ("<40", "40-54", "55-64", "65-74", ">=75")  # years
SEXES: Final = ("M", "F")
PARTS: Final = ("train", "validation", "test")

Stage = Literal["diagnosis", "identity", "sex", "age", "anonymizer"]
CLASSIFIER_STAGES: Final[tuple[Stage, ...]] = ("diagnosis", "identity", "sex", "age")
STAGES: Final[tuple[Stage, ...]] = (*CLASSIFIER_STAGES, "anonymizer")

# Keys of the records inside a message.
ARRAYS: Final = "arrays"
CONFIG: Final = "config"
METRICS: Final = "metrics"
REPLY: Final = "reply"
NUM_EXAMPLES: Final = "num-examples"

# Queries beside training: freeze the classifiers, release the test recordings.
FREEZE: Final = "freeze"
RELEASE: Final = "release"

ERRORS: Final = {
    "budget": "its privacy cap, or the state of its ledger, does not allow the round",
    "no-windows": "it has no usable training window for this stage",
    "data": "its records, prepared windows or ledger cannot be used; see the hospital's own log",
    "settings": "it refused the settings it was sent",
    "internal": "it failed; the reason is in the hospital's own log",
}

# What an audit may do beside its first table, in this order; `audit.attacks` chooses.
ATTACKS: Final = ("retraining", "identification", "recording", "utility", "unseen", "purified",
                  "membership", "membership_references", "inversion")
ENCODERS: Final = ("classifier", "metric", "fiducial", "raw")  # of identification
TRAINABLE: Final = ("all", "norms", "last", "none")  # layers that training may change
