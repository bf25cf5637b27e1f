"""The Flower ClientApp: messages in, messages out; everything else is the Hospital's.

Exceptions never travel: their text could hold data. The reply carries one of protocol.ERRORS, the
reason goes to the hospital's own log.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

from flwr.app import ArrayRecord, ConfigRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp

from client.hospital import Hospital
from client.release import export_bundle, write_release
from common.config import settings_from
from common.ecg.windows import Store
from common.errors import BudgetError, InputError
from common.protocol import (
    ARRAYS,
    CLASSIFIER_STAGES,
    CONFIG,
    FREEZE,
    METRICS,
    NUM_EXAMPLES,
    RELEASE,
    REPLY,
    STAGES,
)

log = logging.getLogger("fedrean.client")
NodeConfig = Callable[[Context], dict[str, str]]


def make_client_app(node_config: NodeConfig) -> ClientApp:
    """A ClientApp whose data settings come from `node_config`, never from the wire.

    The node settings are site, store, state and ledger (paths), and export (empty: no bundle).
    """
    app = ClientApp()

    def hospital(message: Message, context: Context) -> Hospital:
        node, config = node_config(context), message.content.config_records[CONFIG]
        settings = settings_from(json.loads(str(config["settings"])))
        return Hospital(node["site"], Store.open(Path(node["store"])), Path(node["state"]),
                        Path(node["ledger"]), settings, str(config["run"]))

    def guarded(message: Message, context: Context,
                work: Callable[[Hospital], RecordDict]) -> Message:
        site = node_config(context)["site"]
        try:
            content = work(hospital(message, context))
            content[REPLY] = ConfigRecord({"site": site, "error": ""})
        except Exception as error:
            code = ("budget" if isinstance(error, BudgetError)
                    else "data" if isinstance(error, InputError) else "internal")
            log.error("%s: %s", site, error, exc_info=code == "internal")
            content = RecordDict({REPLY: ConfigRecord({"site": site, "error": code})})
        return Message(content, reply_to=message)

    @app.train()
    def train(message: Message, context: Context) -> Message:
        def work(hospital: Hospital) -> RecordDict:
            config, arrays = message.content.config_records[CONFIG], message.content.array_records
            number = int(str(config["server-round"])) + int(str(config["offset"]))
            stage = str(config["stage"])
            if stage not in STAGES:
                raise InputError(f"stage is {stage!r}; allowed: {', '.join(STAGES)}")
            update = hospital.train_round(stage, number, arrays[ARRAYS].to_torch_state_dict())
            metrics: dict[str, Any] = {NUM_EXAMPLES: update.examples}
            if hospital.settings.privacy.unit == "none":
                metrics["loss"] = update.loss  # private otherwise: see common/protocol.py
            return RecordDict({ARRAYS: ArrayRecord(update.state), METRICS: MetricRecord(metrics)})

        return guarded(message, context, work)

    @app.query(FREEZE)
    def freeze(message: Message, context: Context) -> Message:
        def work(hospital: Hospital) -> RecordDict:
            for stage in CLASSIFIER_STAGES:
                hospital.freeze(stage, message.content.array_records[stage].to_torch_state_dict())
            return RecordDict()

        return guarded(message, context, work)

    @app.query(RELEASE)
    def release(message: Message, context: Context) -> Message:
        def work(hospital: Hospital) -> RecordDict:
            arrays = message.content.array_records[ARRAYS]
            hospital.freeze("anonymizer", arrays.to_torch_state_dict())
            write_release(hospital)
            export = node_config(context)["export"]
            if export:
                export_bundle(hospital, Path(export))
            return RecordDict()

        return guarded(message, context, work)

    return app
