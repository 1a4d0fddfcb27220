"""Producers and consumers that load a broker over sockets until it dies, and note what it promised them."""

from __future__ import annotations

import threading
from collections import defaultdict
from dataclasses import dataclass, field
from random import Random

from tests.support import raw_client as raw
from tests.support.raw_client import RawClient

QUEUES = 4
PLAIN = "plain"
GROUPS = ("readers", "others")

Queue = tuple[str, int]
Place = tuple[str, str, int]
"""Group, topic, queue."""


@dataclass(slots=True)
class Ledger:
    """What the broker acknowledged, over all of its lives on one store."""

    stored: dict[Queue, dict[int, bytes]] = field(default_factory=lambda: defaultdict(dict))
    """Queue → offset → body, as the answers to sends said."""
    asked: dict[Place, int] = field(default_factory=dict)
    """Highest offset that a commit was sent for, answered or not."""
    lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def count(self) -> int:
        """Return how many messages were acknowledged."""
        return sum(len(found) for found in self.stored.values())

    def note(self, queue: Queue, first: int, bodies: list[bytes]) -> None:
        """Take in the answer to a send."""
        with self.lock:
            known = self.stored[queue]
            for offset, body in enumerate(bodies, first):
                assert known.setdefault(offset, body) == body, f"offset {offset} of {queue} was given away twice"


class Load:
    """The clients of one round: threads that end when the broker does, or at ``stop``."""

    def __init__(self, place: tuple[str, int], ledger: Ledger, name: str, rng: Random, *, producers: int = 4) -> None:
        self._place = place
        self._ledger = ledger
        self._name = name
        self._is_stopping = threading.Event()
        self.first = threading.Event()
        """Set by the first answer to a send."""
        self.ended = threading.Event()
        """Set when a client ends, by whatever."""
        self.errors: list[BaseException] = []
        jobs = [
            *((self._produce, number, Random(rng.random())) for number in range(producers)),
            *((self._consume, number, Random(rng.random())) for number in range(len(GROUPS))),
        ]
        self._threads = [threading.Thread(target=self._run, args=job, daemon=True) for job in jobs]
        for thread in self._threads:
            thread.start()

    def join(self) -> None:
        """Wait for the end of all clients; fail as the first of them did."""
        self._is_stopping.set()
        for thread in self._threads:
            thread.join(60)
            assert not thread.is_alive(), "a client of a dead broker waits"
        if self.errors:
            raise self.errors[0]

    def _run(self, job: object, number: int, rng: Random) -> None:
        assert callable(job)
        try:
            with RawClient(self._place) as client:
                job(client, number, rng)
        except OSError:
            return  # the broker is dead
        except BaseException as error:  # noqa: BLE001 - raised again by ``join``
            self.errors.append(error)
        finally:
            self.ended.set()

    # -- producers -------------------------------------------------------------------------------

    def _produce(self, client: RawClient, number: int, rng: Random) -> None:
        """Send windows of messages: singly, in batches, with keys, to new topics."""
        serial = 0
        name = f"{self._name}-{number}"
        while not self._is_stopping.is_set():
            waiting: dict[int, tuple[Queue, list[bytes]]] = {}
            frames = []
            for _ in range(rng.choice((1, 4, 16, 48))):
                opaque = client.next_opaque()
                topic = f"new-{name}-{serial // 400}" if rng.random() < 0.05 else PLAIN
                queue = rng.randrange(QUEUES)
                count = rng.randrange(2, 9) if rng.random() < 0.15 else 1
                bodies = [f"{name}:{serial + at}:{'x' * rng.randrange(200)}".encode() for at in range(count)]
                serial += count
                frames.append(_frame(opaque, topic, queue, bodies, rng))
                waiting[opaque] = (topic, queue), bodies
            client.write(b"".join(frames))
            while waiting:
                answer = client.read()
                place, bodies = waiting.pop(answer.opaque)
                assert answer.code == 0, answer
                assert answer.ext["queueId"] == str(place[1]), answer
                self._ledger.note(place, int(answer.ext["queueOffset"]), bodies)
                self.first.set()

    # -- consumers -------------------------------------------------------------------------------

    def _consume(self, client: RawClient, number: int, rng: Random) -> None:
        """Read the queues of the plain topic behind the producers, committing in both ways."""
        group = GROUPS[number]
        places = {queue: self._begin(client, group, queue) for queue in range(QUEUES)}
        while not self._is_stopping.is_set():
            queue = rng.randrange(QUEUES)
            at = places[queue]
            commits = rng.random() < 0.5
            if commits:
                self._ask(group, queue, at)
            ext = raw.pull_ext(PLAIN, queue, at, group=group, park_ms=50, commit=at if commits else None)
            answer = client.ask(raw.PULL, ext)
            found = [message.offset for message in raw.messages(answer.body)]
            assert found == list(range(at, at + len(found))), (found, at)
            places[queue] += len(found)
            if rng.random() < 0.5:
                self._ask(group, queue, places[queue])
                ext = {"consumerGroup": group, "topic": PLAIN, "queueId": str(queue)}
                answer = client.ask(raw.UPDATE_OFFSET, {**ext, "commitOffset": str(places[queue])})
                assert answer.code in (0, 17, 29), answer  # the topic is made by its first message

    def _begin(self, client: RawClient, group: str, queue: int) -> int:
        answer = client.ask(raw.QUERY_OFFSET, {"consumerGroup": group, "topic": PLAIN, "queueId": str(queue)})
        return int(answer.ext["offset"]) if answer.code == 0 else 0

    def _ask(self, group: str, queue: int, offset: int) -> None:
        with self._ledger.lock:
            key = (group, PLAIN, queue)
            self._ledger.asked[key] = max(offset, self._ledger.asked.get(key, 0))


def _frame(opaque: int, topic: str, queue: int, bodies: list[bytes], rng: Random) -> bytes:
    """Return a send: a batch for several bodies, sometimes with what the compiled path leaves alone."""
    ids = [{"UNIQ_KEY": body[:40].hex()} for body in bodies]
    if len(bodies) > 1:
        ext = raw.send_ext(topic, queue, {}, is_batch=True)
        return raw.frame(raw.SEND_BATCH, ext, raw.batch_body(zip(bodies, ids, strict=True)), opaque=opaque)
    properties = ids[0]
    if rng.random() < 0.1:
        properties = {**properties, "KEYS": f"k{opaque} k{opaque + 1}", "TAGS": "a", "own": "é"}
    make = raw.binary_frame if rng.random() < 0.1 else raw.frame
    return make(raw.SEND_V2, raw.send_ext(topic, queue, properties), bodies[0], opaque=opaque)
