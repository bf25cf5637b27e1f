"""Flower's Grid in one process: messages go straight to the ClientApp.

The only file that uses Flower internals (TaskIdentity, message metadata), checked on flwr 1.39.0.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable

from flwr.app import Context, Message, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid
from flwr.supercore.run import Run
from flwr.supercore.task_identity import TaskIdentity


class InProcessGrid(Grid):
    """A grid whose nodes are called one after the other, in the order of their numbers.

    Args:
        app: the ClientApp that every node runs.
        nodes: number of nodes; node i gets `partition-id` i in its node config.
    """

    def __init__(self, app: ClientApp, nodes: int) -> None:
        self.app = app
        self.identify()
        self.contexts = {
            i + 1: Context(run_id=1, node_id=i + 1, node_config={"partition-id": i},
                           state=RecordDict(), run_config={})
            for i in range(nodes)
        }
        self.replies: dict[str, Message] = {}

    @staticmethod
    def identify() -> None:
        """Flower builds messages only in a process that knows its task."""
        TaskIdentity.run_id, TaskIdentity.node_id, TaskIdentity.task_id = 1, 1, 1

    def set_run(self, run: Run) -> None:
        """Nothing to set: there is one run."""

    @property
    def run(self) -> Run:
        """The only run."""
        raise AttributeError("an in-process grid has no run record")

    def create_message(self, content: RecordDict, message_type: str, dst_node_id: int,
                       group_id: str, ttl: float | None = None) -> Message:
        """Flower's older way to make a message."""
        return Message(content, dst_node_id, message_type, group_id=group_id, ttl=ttl)

    def get_node_ids(self) -> Iterable[int]:
        """Numbers of the nodes."""
        return list(self.contexts)

    def push_messages(self, messages: Iterable[Message]) -> Iterable[str]:
        """Run the ClientApp on each message; ids to pull the replies by."""
        ids = []
        for message in messages:
            number = uuid.uuid4().hex
            message.metadata.__dict__["_message_id"] = number
            reply = self.app(message, self.contexts[message.metadata.dst_node_id])
            self.replies[number] = reply
            ids.append(number)
        return ids

    def pull_messages(self, message_ids: Iterable[str]) -> Iterable[Message]:
        """Replies of pushed messages."""
        return [self.replies.pop(number) for number in message_ids]

    def send_and_receive(
        self, messages: Iterable[Message], *, timeout: float | None = None
    ) -> Iterable[Message]:
        """Push, run and pull."""
        return self.pull_messages(self.push_messages(messages))
