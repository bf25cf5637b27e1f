"""The Flower ClientApp: messages in, messages out; everything else is the Hospital's.

Exceptions never travel: their text could hold data. The reply carries one of protocol.ERRORS, the
reason goes to the hospital's own log, `errors.log` in its state folder. Each message may start a
fresh process: what takes seconds to import (Opacus, WFDB) is imported where it is used.
"""

from __future__ import annotations

import json
import logging
import re
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

from flwr.app import ArrayRecord, ConfigRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp

from client.charged_round import train_round
from client.hospital import Hospital
from client.ledger import Ledger
from client.node import Node, node_from
from common.config import Settings, settings_from
from common.errors import BudgetError, InputError, NoWindowsError, SettingsError
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
NodeOf = Callable[[Context], Node]
Work = Callable[[RecordDict, Hospital, Node], RecordDict]


def make_client_app(node_of: NodeOf) -> ClientApp:
    """A ClientApp whose paths come from `node_of`, never from the wire."""
    app = ClientApp()

    def answering(work: Work) -> Callable[[Message, Context], Message]:
        return lambda message, context: _answer(message, work, lambda: node_of(context))

    app.train()(answering(_train))
    app.query(FREEZE)(answering(_freeze))
    app.query(RELEASE)(answering(_release))
    return app


def _answer(message: Message, work: Work, node_of: Callable[[], Node]) -> Message:
    """Do a message's work; an exception becomes a code in the reply and a line in the log."""
    node, site = None, ""
    try:
        node = node_of()
        site = node.site
        hospital = _hospital(node, message.content.config_records[CONFIG])
        content = work(message.content, hospital, node)
        content[REPLY] = ConfigRecord({"site": site, "error": "",
                                       "head": str(hospital.ledger.head())})
    except Exception as error:
        code = _code(error)
        level = logging.INFO if code == "no-windows" else logging.ERROR  # the report names it
        log.log(level, "%s: %s", site, error, exc_info=code == "internal")
        if node:
            _note(Path(node.state), error)
        content = RecordDict({REPLY: ConfigRecord({"site": site, "error": code})})
    return Message(content, reply_to=message)


def _train(content: RecordDict, hospital: Hospital, node: Node) -> RecordDict:
    """One round of a stage."""
    config = content.config_records[CONFIG]
    number = int(str(config["server-round"])) + int(str(config["offset"]))
    stage = str(config["stage"])
    if stage not in STAGES:
        raise InputError(f"stage is {stage!r}; allowed: {', '.join(STAGES)}")
    received = content.array_records[ARRAYS].to_torch_state_dict()
    update = train_round(hospital, stage, number, received, int(str(config.get("hospitals", 1))))
    metrics: dict[str, Any] = {NUM_EXAMPLES: update.examples}
    if hospital.settings.privacy.unit == "none":
        metrics["loss"] = update.loss  # private otherwise: see common/protocol.py
    return RecordDict({ARRAYS: ArrayRecord(update.state), METRICS: MetricRecord(metrics)})


def _freeze(content: RecordDict, hospital: Hospital, node: Node) -> RecordDict:
    """Keep the four trained classifiers."""
    for stage in CLASSIFIER_STAGES:
        hospital.freeze(stage, content.array_records[stage].to_torch_state_dict())
    return RecordDict()


def _release(content: RecordDict, hospital: Hospital, node: Node) -> RecordDict:
    """Keep the anonymizer, write the release and, where the node has agreed, the audit bundle."""
    from client.release import export_bundle, write_release

    hospital.freeze("anonymizer", content.array_records[ARRAYS].to_torch_state_dict())
    write_release(hospital)
    if node.export:
        export_bundle(hospital, Path(node.export))
    return RecordDict()


def _note(state: Path, error: Exception) -> None:
    """Append to the hospital's own log: the process may be gone before anyone sees its output."""
    state.mkdir(parents=True, exist_ok=True)
    with (state / "errors.log").open("a") as out:
        out.write(f"{time.strftime('%Y-%m-%dT%H:%M:%S%z')} {type(error).__name__}: {error}\n")
        out.write("".join(traceback.format_exception(error)))


def _hospital(node: Node, config: ConfigRecord) -> Hospital:
    """The hospital as a run's settings want it.

    Raises:
        SettingsError: they are not acceptable.
        InputError: the hospital's data are not.
    """
    run = str(config["run"])
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}", run):  # becomes a folder name
        raise SettingsError(f"run is {run!r}; allowed: 1 to 100 letters, digits, . _ -")
    settings = _settings(str(config["settings"]))
    ledger = Ledger(Path(node.ledger), Path(node.head) if node.head else None)
    _check_echo(ledger, node.site, str(config.get("heads", "{}")))
    return Hospital(node.site, node.open_store(settings), Path(node.state), ledger, settings, run,
                    Path(node.public or Path(node.state) / "public"))


def _check_echo(ledger: Ledger, site: str, heads: str) -> None:
    """What the server remembers of this hospital's ledger must lie in its chain.

    Raises:
        BudgetError: it does not: an older copy of the ledger was restored.
        SettingsError: the server's memory is not readable.
    """
    try:
        seen = json.loads(heads).get(site)
        count, _, digest = str(seen).partition(":")
        number = int(count) if seen else 0
    except (ValueError, AttributeError) as error:
        raise SettingsError(f"heads is {heads[:80]!r}; allowed: site -> COUNT:HASH") from error
    if seen:
        ledger.check_echo(number, digest)


def _settings(text: str) -> Settings:
    try:
        return settings_from(json.loads(text))
    except (ValueError, TypeError, AttributeError) as error:  # InputError is a ValueError
        raise SettingsError(f"settings of the run are refused: {error}") from error


def _code(error: Exception) -> str:
    """Which of protocol.ERRORS an exception becomes on the wire."""
    for kind, code in ((BudgetError, "budget"), (SettingsError, "settings"),
                       (NoWindowsError, "no-windows"), (InputError, "data")):
        if isinstance(error, kind):
            return code
    return "internal"


app = make_client_app(lambda context: node_from(context.node_config))
