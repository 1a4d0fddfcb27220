"""What one broker knows of batch transactions: staged rows, decisions, publications, and the last epoch of producers.

Sans-IO.  Questions (``stage``, ``commit``, ``abort``) change nothing: they refuse, tell what is known already, or
return the fact that has to be recorded.  ``apply`` takes in a fact that stands in the log; a start applies the same
facts in the same order and comes to the same state.

    producer   its last ended epoch; below it everything is stale, above it transactions are open
    open       attempts of partitions, each some requests long
    ended      the winners' rows are published in the order of winners, requests and messages; all else is dropped

The coordinator's ``Ended`` is the commit point.  It keeps the decision until every broker that has winning rows has
confirmed it; a broker that holds rows for long asks it, and drops nothing before it knows.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from litemq.errors import BadField, Busy, RowsMissing, StaleEpoch, TransactionOver
from litemq.features.batch_parts import (
    Ask,
    Chunk,
    Decision,
    Expire,
    Key,
    Limits,
    Memory,
    Open,
    Part,
    Place,
    Publication,
    Repeat,
    Verdict,
    counted,
    shares,
)
from litemq.format.batch_records import Confirmed, Dropped, Ended, Fact, Published, Publishing, Staged, Winner


class Batches:
    """The batch transactions of the broker ``name``."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.open: dict[str, dict[int, Open]] = {}
        self.open_count = 0
        self.staged_bytes = 0
        self.memories: dict[str, Memory] = {}
        """Those used longest ago come first."""
        self.publications: dict[Key, Publication] = {}
        self.decisions: dict[Key, Decision] = {}

    def take(self, other: Batches) -> None:
        """Become what another one is."""
        self.__dict__.update(vars(other))

    def doubt(self) -> None:
        """Note, behind a start, that rows of other coordinators may have won: they are not dropped by anybody else."""
        for epochs in self.open.values():
            for found in epochs.values():
                if found.coordinator != self.name:
                    for part in found.parts.values():
                        part.is_in_doubt = True

    # -- questions -------------------------------------------------------------------------------

    def stage(self, wanted: Staged, limits: Limits) -> Verdict:
        """Return what to do with rows.

        Raises:
            StaleEpoch: a later epoch of the producer ended.
            TransactionOver: the attempt had other rows there, or was counted for a commit.
            RowsMissing: an earlier request of the attempt is missing.
            Busy: a limit is reached.
        """
        key = Key(wanted.producer_id, wanted.epoch)
        known = self._known(key)
        if known is not None:
            return Verdict.COMMITTED if known.is_committed else Verdict.ABORTED
        found = self.open.get(key.producer_id, {}).get(key.epoch)
        if found is None:
            self._check_room(key, limits)
            part = None
        else:
            if found.coordinator != wanted.coordinator:
                raise BadField(
                    f"{key} has rows for the coordinator {found.coordinator!r} already, not {wanted.coordinator!r}"
                )
            part = found.parts.get((wanted.partition, wanted.attempt))
            if part is None and len(found.parts) >= limits.parts:
                raise Busy(f"{key} has {len(found.parts)} attempts here, as many as transaction.batch_parts allows")
        verdict = self._verdict(key, wanted, part or Part())
        if verdict is Verdict.STORE and self.staged_bytes + counted(wanted.size) > limits.staged_bytes:
            raise Busy(
                f"{self.staged_bytes} bytes are staged on this broker, {limits.staged_bytes} are allowed "
                "(transaction.batch_staged_bytes); try again in 1000 ms"
            )
        return verdict

    def _check_room(self, key: Key, limits: Limits) -> None:
        if self.open_count >= limits.open:
            raise Busy(
                f"{self.open_count} batch transactions are open on this broker, as many as transaction.batch_open "
                "allows; try again in 1000 ms"
            )
        self.check_producers(key, limits)

    def check_producers(self, key: Key, limits: Limits) -> None:
        """Refuse a producer that is one too many; one with an open transaction is counted already."""
        if key.producer_id in self.open or key.producer_id in self.memories:
            return
        if len(self.memories) + len(self.open) >= limits.producers:
            raise Busy(
                f"{len(self.memories)} producers of batch transactions are remembered and {len(self.open)} have open "
                "ones, as many as transaction.batch_producers allows"
            )

    def _verdict(self, key: Key, wanted: Staged, part: Part) -> Verdict:
        attempt = f"attempt {wanted.attempt} of partition {wanted.partition} of {key}"
        before = part.chunks.get(wanted.sequence)
        if before is not None:
            if (before.checksum, before.count) != (wanted.checksum, wanted.count):
                raise TransactionOver(
                    f"{attempt} has other rows in request {wanted.sequence}: stage under another attempt number"
                )
            return Verdict.REPEATED
        if part.is_sealed:
            raise TransactionOver(f"{attempt} was counted for a commit: it gets no more rows")
        if wanted.sequence != len(part.chunks):
            raise RowsMissing(
                f"{attempt} has {len(part.chunks)} requests here and misses those before {wanted.sequence}: "
                "stage all of its rows again under another attempt number"
            )
        return Verdict.STORE

    def commit(self, key: Key, winners: tuple[Winner, ...], coordinator: str, now_ms: int) -> Ended | Memory:
        """Return the decision to record; what is remembered when it is committed already.

        Elsewhere than on the coordinator it was decided: an epoch below the last one is ended late, or was before.

        Raises:
            StaleEpoch: a later epoch of the producer ended.
            TransactionOver: it was aborted.
            RowsMissing: rows of this broker are not staged as the winners say.
        """
        rows = sum(sum(winner.rows.values()) for winner in winners)
        is_late = coordinator not in ("", self.name) and self._is_passed(key)
        if is_late and not self._is_open(key):
            return Memory(key.epoch, True, rows, now_ms, coordinator, "", -1)
        known = None if is_late else self._known(key)
        if known is not None:
            if not known.is_committed:
                raise TransactionOver(f"{key} was aborted ({known.reason}): it cannot be committed any more")
            return known
        self._check_coordinator(key, coordinator)
        self.count(key, winners)
        kept = winners if coordinator == self.name else shares(winners, self.name)
        return Ended(key.producer_id, key.epoch, True, kept, coordinator, "", now_ms, rows)

    def _is_open(self, key: Key) -> bool:
        return key.epoch in self.open.get(key.producer_id, ())

    def _is_passed(self, key: Key) -> bool:
        """Return whether a later epoch of the producer ended."""
        known = self.memories.get(key.producer_id)
        return known is not None and known.epoch > key.epoch

    def count(self, key: Key, winners: tuple[Winner, ...], *, seal: bool = False) -> None:
        """Compare what this broker has with what winners say; ``seal``: they get no more rows."""
        found = self.open.get(key.producer_id, {}).get(key.epoch)
        partitions: set[int] = set()
        for partition, attempt, rows in winners:
            if partition in partitions:
                raise BadField(f"the winners of {key} name partition {partition} twice: one attempt of each can win")
            partitions.add(partition)
            wanted = rows.get(self.name, 0)
            part = found.parts.get((partition, attempt)) if found is not None else None
            there = part.rows if part is not None else 0
            if there != wanted:
                raise RowsMissing(
                    f"attempt {attempt} of partition {partition} of {key} has {there} rows on {self.name}, the commit "
                    f"names {wanted}: nothing was committed; stage them again under another attempt number"
                )
            if part is not None and seal:
                part.is_sealed = True

    def abort(self, key: Key, coordinator: str, reason: str, now_ms: int) -> Ended | Memory:
        """Return the decision to record; what is remembered when it is aborted already.

        Raises:
            StaleEpoch: a later epoch of the producer ended.
            TransactionOver: it was committed.
        """
        is_late = coordinator != self.name and self._is_passed(key) and self._is_open(key)
        known = None if is_late else self._known(key)
        if known is not None:
            if known.is_committed:
                raise TransactionOver(f"{key} was committed: it cannot be aborted any more")
            return known
        self._check_coordinator(key, coordinator)
        return Ended(key.producer_id, key.epoch, False, (), coordinator, reason, now_ms)

    def _check_coordinator(self, key: Key, coordinator: str) -> None:
        """Refuse an end by another broker than the rows were staged for: nobody would tell the others of it."""
        found = self.open.get(key.producer_id, {}).get(key.epoch)
        if found is not None and coordinator and found.coordinator != coordinator:
            raise BadField(f"{key} has rows for the coordinator {found.coordinator!r}, not for {coordinator!r}")

    def drop(self, key: Key, partition: int, attempt: int) -> Dropped | Memory | None:
        """Return the fact that rows do not count; what is remembered when it ended; None where there are no rows.

        Raises:
            StaleEpoch: a later epoch of the producer ended.
            TransactionOver: the rows were counted, and may have been committed since.
        """
        known = self._known(key)
        if known is not None:
            return known
        found = self.open.get(key.producer_id, {}).get(key.epoch)
        if found is None or (partition >= 0 and (partition, attempt) not in found.parts):
            return None
        meant = (part for place, part in found.parts.items() if partition < 0 or place == (partition, attempt))
        if any(part.is_sealed or part.is_in_doubt for part in meant):
            raise TransactionOver(
                f"rows of {key} may have been counted for a commit: only its coordinator says that they go"
            )
        return Dropped(key.producer_id, key.epoch, partition, attempt)

    def _known(self, key: Key) -> Memory | None:
        """Return how a transaction ended; None when it did not.

        Raises:
            StaleEpoch: a later one of its producer did.
        """
        known = self.memories.get(key.producer_id)
        if known is None or known.epoch < key.epoch:
            return None
        if known.epoch > key.epoch:
            raise StaleEpoch(f"{key} is stale: epoch {known.epoch} of this producer has ended")
        return known

    def decided(self, key: Key, broker: str) -> tuple[str, tuple[Winner, ...]]:
        """Return what a coordinator says to a broker that holds rows: ``open``, ``committed`` or ``aborted``."""
        decision = self.decisions.get(key)
        if decision is not None:
            return "committed", shares(decision.winners, broker)
        known = self.memories.get(key.producer_id)
        if known is None or known.epoch < key.epoch:
            return "open", ()
        is_committed = known.epoch == key.epoch and known.is_committed
        return ("committed" if is_committed else "aborted"), ()

    def state(self, key: Key) -> dict[str, Any]:
        """Return what ``status`` tells."""
        known = self.memories.get(key.producer_id)
        found = self.open.get(key.producer_id, {}).get(key.epoch)
        publication = self.publications.get(key)
        answer: dict[str, Any] = {
            "state": "open" if found is not None else "unknown",
            "last_epoch": known.epoch if known is not None else None,
            "rows": sum(part.rows for part in found.parts.values()) if found is not None else 0,
            "attempts": len(found.parts) if found is not None else 0,
            "unpublished": publication.total - publication.done if publication is not None else 0,
            "unconfirmed": sorted(self.decisions[key].waiting) if key in self.decisions else [],
            "reason": "",
        }
        if known is not None and known.epoch >= key.epoch:
            answer["state"] = (
                ("committed" if known.is_committed else "aborted") if known.epoch == key.epoch else "stale"
            )
            if known.epoch == key.epoch:
                answer |= {"rows": known.rows, "reason": known.reason}
        return answer

    # -- facts -----------------------------------------------------------------------------------

    def apply(self, fact: Fact, place: Place, time_ms: int) -> None:
        """Take in a fact whose record stands at a place."""
        key = Key(fact.producer_id, fact.epoch)
        match fact:
            case Staged():
                self._put(key, fact, place, time_ms)
            case Ended():
                self._end(key, fact, place.position)
            case Dropped():
                self._drop(key, fact.partition, fact.attempt)
            case Publishing():
                publication = self.publications.get(key)
                if publication is not None:
                    publication.done, publication.behind = fact.first, place.position
            case Published():
                self._published(key)
            case Confirmed():
                self._confirm(key, fact.broker)

    def _published(self, key: Key) -> None:
        gone = self.publications.pop(key, None)
        if gone is not None:
            self.staged_bytes -= sum(part.size for part in gone.parts.values())
        self._forget_open(key)

    def _confirm(self, key: Key, broker: str) -> None:
        decision = self.decisions.get(key)
        if decision is None:
            return
        decision.waiting.discard(broker)
        decision.confirmed = (*decision.confirmed, broker)
        if not decision.waiting:
            del self.decisions[key]

    def _put(self, key: Key, fact: Staged, place: Place, time_ms: int) -> None:
        chunk = Chunk(fact.sequence, place, fact.count, fact.size, fact.checksum)
        known = self.memories.get(key.producer_id)
        publication = self.publications.get(key)
        if publication is not None:  # what retention carried behind the decision
            part = publication.parts.get((fact.partition, fact.attempt))
            if part is not None:
                self.staged_bytes += part.put(chunk)
            return
        if known is not None and known.epoch == key.epoch:
            return
        # Rows of an earlier epoch than the last one are behind its end only where retention carried them: they wait
        # for their coordinator, or for their own end that was carried behind them.
        epochs = self.open.setdefault(key.producer_id, {})
        found = epochs.get(key.epoch)
        if found is None:
            found = epochs[key.epoch] = Open(fact.coordinator, time_ms)
            self.open_count += 1
        found.touched_ms = max(found.touched_ms, time_ms)
        self.staged_bytes += found.parts.setdefault((fact.partition, fact.attempt), Part()).put(chunk)

    def _end(self, key: Key, fact: Ended, position: int) -> None:
        known = self.memories.get(key.producer_id)
        if known is None or known.epoch <= key.epoch:
            if known is not None and known.epoch < key.epoch:
                del self.memories[key.producer_id]  # to come last
            self.memories[key.producer_id] = Memory(
                key.epoch, fact.is_committed, fact.rows, fact.used_ms, fact.coordinator, fact.reason, position
            )
        if fact.is_committed:
            self._begin_publication(key, fact, position)
            self._keep_decision(key, fact, position)
        for epoch, found in list(self.open.get(key.producer_id, {}).items()):
            # Who does not decide cannot know what became of an earlier one: its coordinator is asked.
            if epoch == key.epoch or (epoch < key.epoch and found.coordinator == self.name):
                self._forget_open(Key(key.producer_id, epoch))

    def _begin_publication(self, key: Key, fact: Ended, position: int) -> None:
        publication = self.publications.get(key)
        if publication is not None:  # said again
            publication.done, publication.behind = max(publication.done, fact.published), -1
            publication.said_at = position
            return
        winners = shares(fact.winners, self.name)
        if not winners or fact.published < 0:
            return
        found = self.open.get(key.producer_id, {}).get(key.epoch)
        parts = found.parts if found is not None else {}
        taken = {(one.partition, one.attempt): parts.pop((one.partition, one.attempt), Part()) for one in winners}
        total = sum(one.rows[self.name] for one in winners)
        self.publications[key] = Publication(winners, taken, total, position, fact.published)

    def _keep_decision(self, key: Key, fact: Ended, position: int) -> None:
        if fact.coordinator != self.name:
            return
        brokers = {broker for winner in fact.winners for broker, rows in winner.rows.items() if rows}
        waiting = brokers - {self.name, *fact.confirmed}
        if waiting:
            self.decisions[key] = Decision(fact.winners, fact.confirmed, waiting, fact.rows, fact.used_ms, position)
        else:
            self.decisions.pop(key, None)

    def _drop(self, key: Key, partition: int, attempt: int) -> None:
        found = self.open.get(key.producer_id, {}).get(key.epoch)
        if found is None:
            return
        if partition < 0:
            self._forget_open(key)
            return
        part = found.parts.pop((partition, attempt), None)
        if part is not None:
            self.staged_bytes -= part.size
        if not found.parts:
            self._forget_open(key)

    def _forget_open(self, key: Key) -> None:
        epochs = self.open.get(key.producer_id)
        found = epochs.pop(key.epoch, None) if epochs is not None else None
        if found is None:
            return
        self.staged_bytes -= sum(part.size for part in found.parts.values())
        self.open_count -= 1
        if not epochs:
            del self.open[key.producer_id]

    def use(self, producer_id: str, now_ms: int) -> None:
        """Note that a producer's last epoch was asked about."""
        known = self.memories.pop(producer_id, None)
        if known is not None:
            known.used_ms = max(known.used_ms, now_ms)
            self.memories[producer_id] = known

    def fact_of(self, key: Key) -> Ended:
        """Return what is known of a transaction that ended, as the fact that says all of it again."""
        known = self.memories.get(key.producer_id)
        publication, decision = self.publications.get(key), self.decisions.get(key)
        holder = decision or publication
        published = publication.done if publication is not None else -1
        confirmed = decision.confirmed if decision is not None else ()
        winners = holder.winners if holder is not None else ()
        if known is not None and known.epoch == key.epoch:
            return Ended(
                *key, known.is_committed, winners, known.coordinator, known.reason, known.used_ms, known.rows,
                published, confirmed,
            )  # fmt: skip
        coordinator = self.name if decision is not None else ""
        rows = decision.rows if decision is not None else 0
        told_ms = decision.told_ms if decision is not None else 0
        return Ended(*key, True, winners, coordinator, "", told_ms, rows, published, confirmed)

    # -- time ------------------------------------------------------------------------------------

    def due(self, now_ms: int, *, ask_ms: int, expiry_ms: int, most: int) -> list[Ask | Expire | Repeat]:
        """Return what is to be done now; of questions and repeats ``most``, those that waited longest."""
        answer: list[Ask | Expire | Repeat] = []
        waiting: list[tuple[int, Key, Open | Decision]] = []
        for producer_id, epochs in self.open.items():
            for epoch, found in epochs.items():
                key, age = Key(producer_id, epoch), now_ms - found.touched_ms
                if found.coordinator == self.name:
                    if age >= expiry_ms:
                        answer.append(Expire(key))
                elif age >= ask_ms and now_ms - found.asked_ms >= ask_ms:
                    waiting.append((max(found.asked_ms, found.touched_ms), key, found))
        waiting += [
            (decision.told_ms, key, decision)
            for key, decision in self.decisions.items()
            if now_ms - decision.told_ms >= ask_ms
        ]
        waiting.sort(key=lambda one: one[0])
        for _, key, one in waiting:
            if most <= 0:
                break
            if isinstance(one, Open):
                one.asked_ms = now_ms
                answer.append(Ask(key, one.coordinator, now_ms - one.touched_ms >= expiry_ms))
                most -= 1
            else:
                one.told_ms = now_ms
                answer += [Repeat(key, broker, shares(one.winners, broker)) for broker in sorted(one.waiting)]
                most -= len(one.waiting)
        return answer

    def forget(self, now_ms: int, memory_ms: int) -> None:
        """Forget producers that nobody has used for long, unless something of them is still to be done."""
        for producer_id in list(self.memories):
            known = self.memories[producer_id]
            if now_ms - known.used_ms < memory_ms:
                break
            key = Key(producer_id, known.epoch)
            if key in self.publications or key in self.decisions:
                self.use(producer_id, now_ms)
            else:
                del self.memories[producer_id]

    # -- live records and snapshots ----------------------------------------------------------------

    def parts(self) -> Iterator[tuple[Key, tuple[int, int], Part]]:
        """Yield every attempt whose rows may still be needed."""
        for producer_id, epochs in self.open.items():
            for epoch, found in epochs.items():
                for place, part in found.parts.items():
                    yield Key(producer_id, epoch), place, part
        for key, publication in self.publications.items():
            for place, part in publication.parts.items():
                yield key, place, part

    def said_before(self, position: int) -> list[Key]:
        """Return the ended transactions of which something is said by no record from ``position`` on, in its order."""
        found = [Key(name, known.epoch) for name, known in self.memories.items() if known.said_at < position]
        for of in (self.publications, self.decisions):
            found += [key for key, one in of.items() if one.said_at < position]
        return sorted(set(found), key=self.said_at)

    def said_at(self, key: Key) -> int:
        """Return the position of the oldest of the newest records that say something of an ended transaction."""
        known = self.memories.get(key.producer_id)
        said = [of[key].said_at for of in (self.publications, self.decisions) if key in of]
        if known is not None and known.epoch == key.epoch:
            said.append(known.said_at)
        return min(said)
