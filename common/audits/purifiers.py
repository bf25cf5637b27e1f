"""Filters that a recipient tries on a release before attacking it: none of them is trained.

The REAN paper (arXiv:2607.06037, 2026) names them and leaves their settings open; what is chosen
here is said at each. None clips to [0, 1], and all run forwards and backwards or are symmetric, so
that no wave moves.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pywt
from numpy.typing import NDArray
from scipy.ndimage import median_filter
from scipy.signal import butter, savgol_filter, sosfiltfilt

from common.errors import InputError

Windows = NDArray[np.float32]

LOW_PASS = 40.0  # Hz
_MEDIAN = 0.02  # s, less than half a QRS complex: it must not cut R peaks off
_SMOOTH = 0.06  # s, of the Savitzky-Golay window
_CUBIC = 3  # its polynomial


def low_pass(windows: Windows, rate: float) -> Windows:
    """Butterworth of order 4, forwards and backwards (order 8 in all, half power at 40 Hz).

    The window goes on at both ends as its point reflection for half a second, in which the filter
    settles.

    Args:
        windows: [n, leads, L].
        rate: Hz.

    Raises:
        InputError: 40 Hz is not below half the sampling rate.
    """
    if rate <= 2 * LOW_PASS:
        raise InputError(f"low-pass is {LOW_PASS:g} Hz; allowed is below half the sampling rate, "
                         f"{rate / 2:g} Hz")
    filtered = sosfiltfilt(butter(4, LOW_PASS, fs=rate, output="sos"), windows.astype(np.float64),
                           padlen=min(round(rate / 2), windows.shape[2] - 1))
    return np.asarray(filtered, dtype=np.float32)


def wavelet(windows: Windows, rate: float) -> Windows:
    """Daubechies-4 wavelet, all details shrunk by the universal threshold sigma sqrt(2 log L).

    sigma is the median of the finest details' magnitudes over .6745, of each window and lead by
    itself. The coarsest approximation stays as it is; there are as many levels as L has room for.

    Args:
        windows: [n, leads, L].
        rate: Hz; not used, as the threshold follows from the noise.

    Source: Donoho & Johnstone, "Ideal spatial adaptation by wavelet shrinkage" (Biometrika, 1994);
    soft thresholding as in Donoho, "De-noising by soft-thresholding" (1995).
    """
    length = windows.shape[2]
    coarse, *details = pywt.wavedec(windows.astype(np.float64), "db4", axis=2)
    sigma = np.median(np.abs(details[-1]), axis=2, keepdims=True) / 0.6745  # (n, leads, 1)
    threshold = sigma * np.sqrt(2 * np.log(length))
    # pywt.threshold divides by the magnitude, which may be 0.
    shrunk = [np.sign(d) * np.maximum(np.abs(d) - threshold, 0) for d in details]
    back = pywt.waverec([coarse, *shrunk], "db4", axis=2)
    return np.asarray(back[:, :, :length], dtype=np.float32)


def median(windows: Windows, rate: float) -> Windows:
    """Median of about 20 ms (an odd number of samples, at least 3), mirrored at the ends.

    Args:
        windows: [n, leads, L].
        rate: Hz.
    """
    filtered = median_filter(windows, size=(1, 1, _odd(_MEDIAN * rate, 3)), mode="mirror")
    return np.asarray(filtered, dtype=np.float32)


def savitzky_golay(windows: Windows, rate: float) -> Windows:
    """Cubics fitted to about 60 ms (an odd number of samples, at least 5).

    The half window at each end takes the cubic fitted to the outermost whole one.

    Args:
        windows: [n, leads, L].
        rate: Hz.

    Source: Savitzky & Golay (Analytical Chemistry, 1964).
    """
    filtered = savgol_filter(windows.astype(np.float64), _odd(_SMOOTH * rate, _CUBIC + 2), _CUBIC,
                             mode="interp")
    return np.asarray(filtered, dtype=np.float32)


def _odd(samples: float, least: int) -> int:
    """The nearest odd number, and not below `least`."""
    return max(least, 2 * round((samples - 1) / 2) + 1)


FILTERS: dict[str, Callable[[Windows, float], Windows]] = {
    "low_pass": low_pass, "wavelet": wavelet, "median": median, "savitzky_golay": savitzky_golay,
}  # [n, leads, L], rate in Hz -> [n, leads, L]
