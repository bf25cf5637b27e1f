"""`fedrean link`: tokens of patients, matching them across hospitals, and what tokens give away."""

from __future__ import annotations

import typer

from simulations.link_risk import risk

link = typer.Typer(no_args_is_help=True,
                   help="Link patients across hospitals, and measure what the tokens give away.")
link.command()(risk)
