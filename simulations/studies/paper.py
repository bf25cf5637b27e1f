"""Figures that the REAN paper (arXiv:2607.06037) prints, of four databases.

Another data set's: they stand beside ours for order, not for equality.
"""

from __future__ import annotations

# Table III, 500 windows: ReID, sex, age (accuracies of its frozen attackers), arrhythmia accuracy,
# macro-AUROC, PRD in percent.
TABLE = {
    "clean": (0.964, 0.974, 0.976, 0.978, 0.9982, 0.0),
    "gaussian": (0.058, 0.572, 0.304, 0.770, 0.6161, 24.00),
    "laplacian": (0.032, 0.568, 0.232, 0.770, 0.4653, 33.70),
    "react": (0.210, 0.584, 0.462, 0.818, 0.9034, 18.20),
    "transecg": (0.250, 0.610, 0.478, 0.754, 0.8185, 14.80),
    "pp_vae": (0.004, 0.452, 0.252, 0.110, 0.6389, 11.91),
    "privecg": (0.966, 0.976, 0.978, 0.980, 0.9981, 0.30),
    "lee": (0.882, 0.912, 0.940, 0.968, 0.9975, 3.17),
    "rean": (0.000, 0.142, 0.044, 0.974, 0.9991, 5.56),
}

# Table I: angle in degrees, cosine, share within 80 to 100 degrees; 4000 windows of 2000 samples.
ANGLES = {
    ("frozen", "bundled"): (89.8, 0.003, 0.985),
    ("frozen", "identity"): (89.8, 0.004, 0.980),
    ("frozen", "sex"): (89.95, 0.001, 0.990),
    ("frozen", "age"): (89.6, 0.007, 0.988),
    ("resnet1d", "bundled"): (89.5, 0.008, 0.832),
    ("inception_time", "bundled"): (89.9, 0.002, 0.861),
    ("cnn_lstm", "bundled"): (89.5, 0.008, 0.924),
}

# Figure 3 and section II-B: cosines "in the classifiers' parameter space".
COSINES = {
    "utility-identity": -0.08, "utility-sex": -0.02, "utility-age": -0.01, "identity-sex": 0.11,
    "identity-age": 0.08, "sex-age": 0.20, "utility-bundled": -0.066,
}

# Table VIII, objective ablation: ReID, sex, age, arrhythmia accuracy, PRD in percent, d.
ABLATION = {
    "U": (0.704, 0.830, 0.842, 0.990, 10.27, 1.29),
    "P": (0.000, 0.094, 0.104, 0.730, 15.45, 1.02),
    "D": (0.964, 0.974, 0.976, 0.978, 0.0, 1.00),
    "UP": (0.000, 0.096, 0.074, 0.962, 15.59, 0.80),
    "UD": (0.964, 0.974, 0.976, 0.978, 0.0, 1.00),
    "PD": (0.000, 0.146, 0.016, 0.810, 5.65, 0.45),
    "UPD": (0.000, 0.142, 0.044, 0.974, 5.56, 0.28),
}
