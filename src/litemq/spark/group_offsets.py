"""What consumer groups have confirmed, as a place to start from: ``startingOffsets=group:NAME``.

Files tell it by the store's snapshot of progress, which is as old as its last checkpoint; brokers are asked.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from litemq.spark.errors import BadOption
from litemq.spark.files import FileBackend
from litemq.store import snapshot
from litemq.store.layout import Paths

if TYPE_CHECKING:
    from litemq.client.live_reads import LiveQueue
    from litemq.spark.live import BrokerBackend

_SHOWN: Final = 20

Progress = dict[tuple[str, int], int]
"""By topic and queue id: the offset that a group reads next."""


def kept_progress(backend: FileBackend) -> dict[str, Progress]:
    """Return the progress of all groups that a store's snapshot names."""
    store = backend.log.store
    table = snapshot.read(backend.log.fs, Paths(store).progress) if store is not None else None
    offsets = table.get("offsetTable") if table else None
    found: dict[str, Progress] = {}
    for name, queues in sorted(offsets.items()) if isinstance(offsets, dict) else ():
        topic, _, group = name.partition("@")
        for queue, offset in sorted(queues.items()) if isinstance(queues, dict) else ():
            if isinstance(offset, int):
                found.setdefault(group, {})[topic, int(queue)] = offset
    return found


def kept_by_group(backend: FileBackend, group: str) -> Progress:
    """Return how far a group has read, by the files of a store.

    Raises:
        BadOption: they know no such group.
    """
    every = kept_progress(backend)
    if group not in every:
        shown = ", ".join(list(every)[:_SHOWN]) or "none"
        raise BadOption(f"no group {group!r} has offsets in {backend.path}; groups are: {shown}")
    return every[group]


def committed_by_group(backend: BrokerBackend, group: str, queues: Iterable[LiveQueue]) -> dict[LiveQueue, int]:
    """Return how far a group has read of queues of brokers; those in which it has no offset are left out.

    Raises:
        UnknownGroup: no broker has the group.
    """
    from litemq.client.admin import Admin  # not at the top: readers of files come by here, too

    with Admin(backend.brokers) as admin:
        admin.group(group)
    found = {queue: backend.live.committed(queue.broker, group, queue.topic, queue.queue_id) for queue in queues}
    # An offset behind the end is of a topic that was deleted and made again.
    return {queue: min(offset, queue.max_offset) for queue, offset in found.items() if offset is not None}
