"""Overrides of a run as small as it can be: it shows that parts fit, not that they learn."""

NETWORKS = ["threads=1", "profile.sampling_rate=50", "profile.vit_width=16",
            "profile.vit_depth=1", "profile.unet_width=4", "audit.width=4"]

STUDY = [*NETWORKS, "cohort.patients=4", "cohort.minutes=3", "audit.steps=20",
         *(f"{stage}.{what}=1" for stage in ("diagnosis", "identity", "sex", "age", "anonymizer")
           for what in ("rounds", "epochs"))]
