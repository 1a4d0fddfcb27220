"""What an audit stands on before it looks at a message: queues and their ends, where groups stand, and one cut.

Everything is asked in an order that live traffic cannot turn into a finding: first how far sends are counted, then
where groups stand, then where queues end.  So no group is ahead of a queue because the queue was looked at earlier.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field

from litemq.features.dead_letter import DLQ_PREFIX
from litemq.features.retry import RETRY_PREFIX
from litemq.format import rows
from litemq.format.names import CHANGES_TOPIC, PROGRESS_TOPIC, STATS_TOPIC
from litemq.spark.errors import BadOption
from litemq.spark.files import FileBackend
from litemq.spark.jobs.audit_findings import Ends, Place, Standing
from litemq.spark.jobs.job import Source
from litemq.spark.live import BrokerBackend
from litemq.spark.options import read_options
from litemq.spark.planning import is_reserved
from litemq.spark.ranges import NO_END
from litemq.store import snapshot
from litemq.store.layout import Paths
from litemq.store.log_walk import read_checkpoint
from litemq.store.progress import Progress

TOLD_BY = (STATS_TOPIC, PROGRESS_TOPIC, CHANGES_TOPIC)
"""LiteMQ's own topics that an audit reads."""


@dataclass(slots=True)
class Ground:
    """What is known beforehand."""

    queues: dict[Place, Ends]
    standings: list[Standing]
    told: dict[Place, Ends]
    """Queues of LiteMQ's own topics that can be read."""
    position_limit: int = NO_END
    """Records from here on are behind the cut."""
    snapshot_position: int | None = None
    """Progress records from here on are newer than ``standings``; None: there are none to look at."""
    lost_from: int | None = None
    """Where the log ends although its checkpoint says that it went on, to ``lost_to``."""
    lost_to: int = 0
    look_again: Callable[[], dict[Place, Ends]] | None = None
    """Asks once more where queues begin: retention may have been at work meanwhile."""
    notes: list[str] = field(default_factory=list)

    @property
    def topics(self) -> list[str]:
        """Return the topics of applications, those of dead letters and retries too."""
        return sorted({topic for _, topic, _ in self.queues})


def is_moved(topic: str) -> bool:
    """Return whether the broker itself puts messages there, which are copies of others."""
    return topic.startswith((RETRY_PREFIX, DLQ_PREFIX))


def ground_of(source: Source, topics: Collection[str]) -> Ground:
    """Look at store files or brokers.

    Raises:
        LiteMQError: they cannot be read; the text says what to do.
    """
    found = _of_brokers(source.brokers) if source.brokers else _of_files(source)
    if topics:
        _keep(found, topics, source.name)
    return found


def _keep(ground: Ground, topics: Collection[str], name: str) -> None:
    """Keep some topics, and the dead letters and retries of the groups that read them."""
    for topic in topics:
        if topic not in ground.topics:
            shown = ", ".join(one for one in ground.topics if not is_moved(one))[:400] or "none"
            raise BadOption(f"there is no topic {topic!r} in {name}; topics are: {shown}")
    groups = {standing.group for standing in ground.standings if standing.place[1] in topics}
    wanted = {*topics, *(prefix + group for group in groups for prefix in (DLQ_PREFIX, RETRY_PREFIX))}
    ground.queues = {place: ends for place, ends in ground.queues.items() if place[1] in wanted}
    ground.standings = [one for one in ground.standings if one.place[1] in wanted]


# -- store files ---------------------------------------------------------------------------------


def _of_files(source: Source) -> Ground:
    options = read_options({"path": source.path, **source.options})
    backend = FileBackend(options.path, options.format)
    log, store = backend.log, backend.log.store
    progress = Progress()
    table = snapshot.read(log.fs, Paths(store).progress) if store is not None else None
    position = progress.load(table)
    standings = []
    for group, topic, queue_id in progress.all_keys():
        standings.append(Standing(group, ("", topic, queue_id), progress.offset(group, topic, queue_id) or 0))
    every = {("", queue.topic, queue.queue_id): Ends(queue.low, queue.high) for queue in backend.bounds()}
    ground = Ground(
        {place: ends for place, ends in every.items() if not is_reserved(place[1])},
        standings,
        {place: ends for place, ends in every.items() if place[1] in TOLD_BY},
        snapshot_position=position,
    )
    if backend.trusted < NO_END:
        for topic in TOLD_BY:  # they may be where no entry leads
            ground.told.setdefault(("", topic, 0), Ends(None, None))
    if log.live is not None:
        now = read_checkpoint(store, log.fs)
        ground.position_limit = now.flushed if now is not None and now.flushed is not None else NO_END
        ground.notes.append("A broker has the store open: what it had flushed when the audit began was looked at.")
    else:
        _find_lost_tail(backend, ground)
    return ground


def _find_lost_tail(backend: FileBackend, ground: Ground) -> None:
    """See whether a log that was not closed goes as far as its checkpoint says: of others the entries tell."""
    found = read_checkpoint(backend.log.store, backend.log.fs)
    if found is None or found.flushed is None or found.derived is None or found.flushed <= found.derived:
        return
    end = found.derived
    for batch in backend.log.batches(end, is_exact=True):
        last = (batch.count - 1) * rows.WIDTH
        end = max(end, batch.table[last + rows.POSITION] + batch.table[last + rows.SIZE])
    if end < found.flushed:
        ground.lost_from, ground.lost_to = end, found.flushed


# -- brokers -------------------------------------------------------------------------------------


def _of_brokers(brokers: str) -> Ground:
    from litemq.client.admin import Admin

    backend = BrokerBackend(brokers, read_options({"brokers": brokers}))
    told = _queues_of(backend, TOLD_BY)
    standings = []
    with Admin(brokers) as admin:
        for group in admin.groups():
            for queue in admin.lag(group.group).queues:
                if queue.offset >= 0:
                    place = (queue.broker, queue.topic, queue.queue_id)
                    standings.append(Standing(group.group, place, queue.offset))

    def look() -> dict[Place, Ends]:
        return {place: ends for place, ends in _queues_of(backend, None).items() if not is_reserved(place[1])}

    return Ground(look(), standings, told, look_again=look)


def _queues_of(backend: BrokerBackend, topics: Iterable[str] | None) -> dict[Place, Ends]:
    return {
        (queue.broker, queue.topic, queue.queue_id): Ends(queue.min_offset, queue.max_offset)
        for broker in backend.look(tuple(topics) if topics is not None else None)
        for topic in broker.topics
        for queue in topic.queues
    }
