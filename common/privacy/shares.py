"""One noise on the aggregate, added in shares: each hospital adds part of the variance.

Secure aggregation hides the parts, so the server sees only the sum, whose noise is the sum of
the shares that arrived. Shares are sized for the worst round that is still kept. Whoever knows
a share can subtract it, so the hospitals that may collude with the server count as missing.
"""

from __future__ import annotations

import math

from common.errors import InputError

_UP = 1.0 + 2.0**-48  # rounding must never leave the sum below sigma


def share_sigma(sigma: float, hospitals: int, missing: int) -> float:
    """Size each hospital's share so that the sum has sigma even if `missing` do not reply.

    Args:
        sigma: wanted noise of the sum over the clipping norm (no unit), at least 0.
        hospitals: number H that add a share, at least 1.
        missing: number t that may fail to reply or collude, at least 0 and below H.

    Returns:
        sigma / sqrt(H - t), over the clipping norm.

    Raises:
        InputError: if an argument lies outside its range.
    """
    if not (math.isfinite(sigma) and sigma >= 0):
        raise InputError(f"sigma is {sigma}; it must be finite and at least 0")
    _check(hospitals, missing)
    return sigma / math.sqrt(hospitals - missing) * _UP


def effective_sigma(share: float, replied: int) -> float:
    """Return the noise of a sum of `replied` shares: share * sqrt(replied).

    Raises:
        InputError: if an argument lies outside its range.
    """
    if not (math.isfinite(share) and share >= 0):
        raise InputError(f"share is {share}; it must be finite and at least 0")
    if int(replied) != replied or replied < 0:
        raise InputError(f"replied is {replied}; it must be a whole number of at least 0")
    return share * math.sqrt(replied)


def enough(hospitals: int, missing_allowed: int, replied: int) -> bool:
    """Decide whether a round may be used; a round that may not is discarded and stays charged.

    The replies have left, so the hospitals' ledgers keep the charge. It is right at the full
    sigma only if too few replies cannot be summed up: the threshold of the secure aggregation
    must be the same H - t. A sum seen in spite of it had only `effective_sigma`.

    Args:
        hospitals: number H that were asked, at least 1.
        missing_allowed: number t the shares were sized for, at least 0 and below H.
        replied: number of replies, from 0 to H.

    Returns:
        True if at least H - t replied, so that the sum carries at least sigma.

    Raises:
        InputError: if an argument lies outside its range.
    """
    _check(hospitals, missing_allowed)
    if int(replied) != replied or not 0 <= replied <= hospitals:
        raise InputError(f"replied is {replied}; it must be a whole number from 0 to {hospitals}")
    return replied >= hospitals - missing_allowed


def _check(hospitals: int, missing: int) -> None:
    """Raise InputError unless some of the hospitals are left to carry the noise."""
    if int(hospitals) != hospitals or hospitals < 1:
        raise InputError(f"hospitals is {hospitals}; it must be a whole number of at least 1")
    if int(missing) != missing or not 0 <= missing < hospitals:
        raise InputError(f"missing is {missing}; it must be a whole number from 0 to "
                         f"{hospitals - 1}, as at least one of {hospitals} must reply")
