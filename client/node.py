"""A node's own settings: the only source of paths. Nothing from the wire may choose one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from common.config import Settings
from common.ecg.hospital_file import load_hospital
from common.ecg.windows import Store, WindowSettings, prepare
from common.errors import InputError


@dataclass(frozen=True)
class Node:
    """Where one hospital's things are.

    Args:
        site: name of the hospital.
        state: folder for prepared windows, identity heads, frozen models and kept replies.
        ledger: its privacy ledger (SQLite); the folder must exist, as a lost ledger loses the
            account.
        data: hospital file (YAML), where the node prepares its own windows.
        store: prepared windows, where a simulation did.
        export: folder that an audit bundle is written to; empty: none is made.
        head: file that remembers how far the ledger had come, best on another volume than it;
            empty: only the server's echo tells a restored older ledger.
        public: folder of the synthetic public windows; empty: one below `state`.
    """

    site: str
    state: str
    ledger: str
    data: str = ""
    store: str = ""
    export: str = ""
    head: str = ""
    public: str = ""

    def open_store(self, settings: Settings) -> Store:
        """The node's windows, prepared on first use.

        Raises:
            InputError: the hospital file names another site, or its records give no windows.
        """
        if self.store:
            return Store.open(Path(self.store))
        hospital = load_hospital(Path(self.data))
        if hospital.name != self.site:
            raise InputError(f"site is {self.site!r}; allowed: the name in {self.data}, "
                             f"{hospital.name!r}")
        # One worker: forking a process that runs gRPC threads is not safe.
        return prepare(hospital, Path(self.state) / "stores", window_settings(settings))


def window_settings(settings: Settings) -> WindowSettings:
    """How a run wants windows cut."""
    return WindowSettings(settings.profile.sampling_rate, settings.profile.seconds,
                          settings.reserved, settings.seed)


def node_from(config: Mapping[str, object]) -> Node:
    """A node from Flower's `--node-config`.

    Raises:
        InputError: a key is missing or empty.
    """
    values = {key: str(config.get(key, "")) for key in Node.__dataclass_fields__}
    for key in ("site", "data", "state", "ledger"):
        if not values[key]:
            raise InputError(f"node-config {key} is ''; needed are site, data, state and ledger")
    return Node(**{**values, "store": ""})  # only a simulation hands over prepared windows
