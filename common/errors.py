"""The project's exceptions: one small tree, so that callers catch what they can act on.

Every message states the name of the offending thing, its value and what is allowed.
"""

from __future__ import annotations


class FedreanError(Exception):
    """Base of every error that fedrean raises on purpose."""


class InputError(FedreanError, ValueError):
    """A setting, file or argument is not acceptable; the caller must change it."""


class RecordError(InputError):
    """One ECG record cannot be used; the others can."""


class NoWindowsError(InputError):
    """A hospital has no window that a stage can be trained on."""


class SettingsError(InputError):
    """A hospital refuses the settings of a run."""


class BudgetError(FedreanError):
    """A privacy budget does not allow the requested release."""


class UpdateError(FedreanError):
    """A hospital's reply cannot be aggregated (wrong shape, not finite, or an error code)."""


class DownloadError(FedreanError):
    """Files of a database could not be fetched, or are not what the release says."""
