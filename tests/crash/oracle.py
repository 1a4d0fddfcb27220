"""What must be true of a store after a crash, checked against a plain scan of its log and the observer's memory."""

from __future__ import annotations

import json
from dataclasses import dataclass

from tests.crash.model import Expected, Forgotten, Memory, ProgressKey
from tests.support.plain_log import (
    PlainLog,
    PlainRecord,
    Queue,
    expected_entry,
    index_ends,
    index_entries,
    queue_entries,
    read_bytes,
)

from litemq.format import checkpoint
from litemq.format.names import CHANGES_TOPIC, PROGRESS_TOPIC
from litemq.store.fs import FileSystem
from litemq.store.message_store import MessageStore

_SNAPSHOTS = ("topics.json", "subscriptionGroup.json", "consumerOffset.json")
_ROLLED_BACK = 3


class Wrong(AssertionError):
    """A promise of the store that does not hold."""


def require(condition: object, text: str) -> None:
    """Raise ``Wrong`` unless the condition holds."""
    if not condition:
        raise Wrong(text)


def describe(record: PlainRecord) -> str:
    """Return a record in words."""
    name = record.body.partition(b"|")[0][:60].decode("ascii", "replace")
    return f"{record.topic}/{record.queue_id}#{record.queue_offset} {name!r} at {record.position}..{record.end}"


# -- what a crash left, before the store is opened --------------------------------------------------------------------


@dataclass(slots=True)
class Image:
    """A store directory as a crash left it."""

    log: PlainLog
    claims: dict[str, int]
    """File → the log position up to which it says that it is true."""


def take_image(memory: Memory, fs: FileSystem) -> Image:
    """Look at what a crash left."""
    claims: dict[str, int] = {}
    if covered := checkpointed(memory, fs):
        claims["checkpoint"] = covered
    for name in _SNAPSHOTS:
        path = memory.root / "config" / name
        if fs.exists(path) and (position := _stated_position(read_bytes(fs, path))) is not None:
            claims[name] = position
    return Image(memory.scan(fs), claims)


def checkpointed(memory: Memory, fs: FileSystem) -> int:
    """Return the position that the checkpoint covers; 0 without one."""
    path = memory.root / "checkpoint"
    found = checkpoint.decode(read_bytes(fs, path)) if fs.exists(path) else None
    return max(found.flushed or 0, found.derived or 0) if found is not None else 0


def _stated_position(data: bytes) -> int | None:
    try:
        position = json.loads(data)["litemq"]["position"]
    except (ValueError, KeyError):
        return None
    return int(position)


def check_claims(memory: Memory, image: Image) -> None:
    """Check that the last checkpoint is there, and that no derived file covers more than the log holds."""
    found = image.claims.get("checkpoint", 0)
    require(found >= memory.checkpointed, f"checkpoint {memory.checkpointed} came to its end, {found} is there")
    if image.log.stop.startswith("hole before"):
        return  # an old segment came back whose successor did not
    for name, position in image.claims.items():
        end = max(image.log.end, image.log.next_segment)
        require(position <= end, f"{name} covers {position}, but the log ends at {end}")


# -- an open store ----------------------------------------------------------------------------------------------------


def check_open(memory: Memory, store: MessageStore, fs: FileSystem, image: Image) -> None:
    """Check a store that was opened on ``image``, and bring the memory up to date."""
    log = memory.scan(fs)
    check_survivors(memory, image.log, log)
    check_nothing_behind_the_end(log)
    check_repair(memory, fs, image.log, log)
    memory.settle(log)
    check_offsets(log)
    end = max(log.end, log.next_segment)
    require(log.end <= store.appended_end <= end, f"appended end {store.appended_end}, the log ends at {log.end}")
    require(store.flushed_end >= memory.flushed or memory.flushed > end, "the flushed end went back")
    memory.flushed = store.flushed_end
    check_tables(memory, store)
    check_reads(memory, store, log)


def check_survivors(memory: Memory, image: PlainLog, log: PlainLog) -> None:
    """Check that the log holds what was flushed and what survived, and nothing that nobody wrote."""
    require(not log.stop, f"the log of an open store has a {log.stop}")
    require(log.start <= memory.latest_start, f"the log starts at {log.start}, not at {memory.latest_start}")
    is_new = False
    for record in log.records:
        old = memory.legit.get(record.position)
        if old is not None and old.raw == record.raw and not is_new:
            continue
        is_new = True  # written by opening the store; nothing old may follow
        is_own = record.raw in memory.opening.get(record.position, ()) or record.position >= image.end
        there_was = f"; there was {describe(old)}" if old else ""
        require(
            is_own and record.topic in (CHANGES_TOPIC, PROGRESS_TOPIC),
            f"a record is visible that nobody wrote or that was cut: {describe(record)}{there_was}",
        )
    there = {record.position for record in log.records}
    for record in memory.legit.values():
        if record.position >= log.start and record.end <= memory.flushed:
            require(record.position in there, f"flushed to {memory.flushed} and lost: {describe(record)}")
    if not image.stop.startswith("hole before"):
        for record in image.records:
            require(record.position in there, f"sound after the crash and cut: {describe(record)}")


def check_nothing_behind_the_end(log: PlainLog) -> None:
    """Check that only zeros follow the last record, so that nothing can come back."""
    for segment in log.segments:
        if segment.base >= log.next_segment or not segment.is_complete:
            rest = segment.data[max(0, log.end - segment.base) :]
            require(not any(rest), f"segment {segment.base} has bytes behind the log's end {log.end}")


def check_repair(memory: Memory, fs: FileSystem, image: PlainLog, log: PlainLog) -> None:
    """Check that what lay behind the end was saved before it was cut off, and that older copies are still there."""
    folder = memory.root / "repair"
    memory.repairs |= _cut_off(image, log)
    for name, tail in memory.repairs.items():
        require(fs.exists(folder / name), f"{len(tail)} bytes were cut off at {name} and not saved")
        require(read_bytes(fs, folder / name).rstrip(b"\0") == tail, f"repair/{name} is not what was cut off")


def _cut_off(image: PlainLog, log: PlainLog) -> dict[str, bytes]:
    """Return what an opening had to save, by file name."""
    found: dict[str, bytes] = {}
    for segment in image.segments:
        at = max(0, log.end - segment.base)
        tail = segment.data[at:].rstrip(b"\0")
        if not tail or (segment.is_complete and segment.base < log.next_segment):
            continue
        found[f"{segment.base + at:020d}"] = tail
    return found


def check_offsets(log: PlainLog) -> None:
    """Check that each queue's offsets count on without a gap."""
    last: dict[Queue, int] = {}
    for record in log.records:
        if record.has_entry:
            queue = (record.topic, record.queue_id)
            before = last.get(queue, record.queue_offset - 1)
            require(record.queue_offset == before + 1, f"offset {before} is followed by {describe(record)}")
            last[queue] = record.queue_offset


def check_written(memory: Memory, log: PlainLog) -> None:
    """Check that every message that the store answered stands in the log as it was given."""
    records = {record.position: record for record in log.records}
    for position, (message, answer) in memory.messages.items():
        if position < log.start:
            continue
        record = records.get(position)
        require(record is not None, f"{message!r} was answered with {answer} and is not there")
        assert record is not None
        wanted = (message.topic, message.queue_id, message.body, message.message_id, message.keys, message.status)
        found = (record.topic, record.queue_id, record.body, record.message_id, record.keys, record.status)
        require(found == wanted, f"{message!r} became {describe(record)}")
        placed = (answer.end, answer.queue_offset, answer.store_time)
        require((record.end, record.queue_offset, record.store_time) == placed, f"{describe(record)}: {answer}")


# -- tables and progress ----------------------------------------------------------------------------------------------


def check_tables(memory: Memory, store: MessageStore) -> None:
    """Check topics, groups and progress against the records of their changes."""
    expected = memory.expected()
    require(store.tables.topics == expected.topics, f"topics are {store.tables.topics}, the log says {expected.topics}")
    require(store.tables.groups == expected.groups, f"groups are {store.tables.groups}, the log says {expected.groups}")
    keys = memory.commits.keys() | expected.progress.keys() | set(store.progress.all_keys())
    for key in sorted(keys):
        _check_progress(memory, store, expected, key)
    memory.commits = {key: [offset] for key in keys if (offset := store.progress.offset(*key)) is not None}


def _check_progress(memory: Memory, store: MessageStore, expected: Expected, key: ProgressKey) -> None:
    _, topic, queue_id = key
    end = store.reader.max_offset(topic, queue_id)
    found = store.progress.offset(*key)
    require(found is None or found <= end, f"progress {key} stands at {found}, above the queue's end {end}")
    recorded = expected.progress.get(key)
    allowed: set[int | None] = {recorded}
    for commit in memory.commits.get(key, []):
        if not isinstance(commit, Forgotten):
            allowed.add(commit)
        elif commit.position in memory.reserved:
            allowed = {None, recorded}
        else:
            allowed.add(None)
    allowed = {None if offset is None else min(offset, end) for offset in allowed}
    require(found in allowed, f"progress {key} is {found}, not one of {allowed} (recorded: {recorded})")


# -- reads ------------------------------------------------------------------------------------------------------------


def check_reads(memory: Memory, store: MessageStore, log: PlainLog) -> None:
    """Check that queues, keys and ids lead to exactly the records of the log."""
    expected = memory.expected()
    for (topic, queue_id), records in log.queues().items():
        visible = [record for record in records.values() if not expected.is_hidden(record)]
        found = read_queue(store, topic, queue_id)
        require(
            found == b"".join(record.raw for record in visible),
            f"{topic}/{queue_id}: {len(found)} bytes instead of {len(visible)} records from "
            + (describe(visible[0]) if visible else "nowhere"),
        )
    by_key: dict[tuple[str, str], list[int]] = {}
    for record in log.records:
        if record.status != _ROLLED_BACK and not expected.is_hidden(record):
            for key in {record.message_id, *record.keys} - {""}:
                by_key.setdefault((record.topic, key), []).append(record.position)
    for topic, key in sorted(memory.keys | by_key.keys()):
        positions = [record.position for record in store.reader.by_key(topic, key, limit=1 << 30)]
        wanted = by_key.get((topic, key), [])
        require(positions == wanted, f"key {key!r} of {topic} leads to {positions} instead of {wanted}")


def read_queue(store: MessageStore, topic: str, queue_id: int) -> bytes:
    """Return the bytes of all that can be read of a queue."""
    data = b""
    at = store.reader.min_offset(topic, queue_id)
    end = store.reader.max_offset(topic, queue_id)
    while at < end:
        part = store.read(topic, queue_id, at, max_count=7)
        require(part.next_offset > at, f"reading {topic}/{queue_id} stops at {at} of {end}")
        require(all(part.sizes), f"{topic}/{queue_id} has a damaged record behind {at}")
        data += part.data
        at = part.next_offset
    require(at == end, f"{topic}/{queue_id} is read to {at}, it ends at {end}")
    return data


# -- a closed store ---------------------------------------------------------------------------------------------------


def check_closed(memory: Memory, fs: FileSystem) -> None:
    """Check the files of a store that was closed cleanly: they are what a rebuild from the log would make."""
    log = memory.scan(fs)
    require(not log.stop, f"the log of a closed store has a {log.stop}")
    require(not fs.exists(memory.root / "abort"), "a clean stop left the mark of a crash")
    check_written(memory, log)
    expected = memory.expected()
    check_queue_files(memory, fs, log, expected)
    check_index_files(memory, fs, log)
    for name, position in take_image(memory, fs).claims.items():
        require(position in (log.end, log.next_segment), f"{name} says {position}, the log ends at {log.end}")


def check_queue_files(memory: Memory, fs: FileSystem, log: PlainLog, expected: Expected) -> None:
    """Check that ConsumeQueue files are what a rebuild from the log would write."""
    assert memory.config.queue_entries is not None
    found = queue_entries(fs, memory.root, memory.format, memory.config.queue_entries)
    wanted = log.queues()
    for queue in sorted(found.keys() | wanted.keys()):
        entries = found.get(queue, {})
        records = {n: record for n, record in wanted.get(queue, {}).items() if not expected.is_deleted(record)}
        for offset, record in records.items():
            require(offset in entries, f"there is no entry for {describe(record)}")
            entry = expected_entry(record, memory.format)
            require(entries[offset] == entry, f"{entries[offset]} instead of {entry} for {describe(record)}")
        for offset, entry in entries.items():
            if entry.position >= log.start:
                require(offset in records, f"{queue} offset {offset} has an entry without a record: {entry}")


def check_index_files(memory: Memory, fs: FileSystem, log: PlainLog) -> None:
    """Check that index files are what a rebuild from the log would write."""
    slots, per_file = memory.config.index_slots, memory.config.index_entries
    assert slots is not None
    assert per_file is not None
    entries = index_entries(fs, memory.root, slots, per_file)
    found = {pair: count for pair, count in entries.items() if pair[1] >= log.start}
    wanted = log.index()
    for hashed, position in sorted(found.keys() | wanted.keys(), key=lambda pair: pair[1]):
        have, want = found.get((hashed, position), 0), wanted[hashed, position]
        require(have == want, f"the index leads from hash {hashed} to {position} {have} times instead of {want}")
    times = {record.position: record.store_time for record in log.records}
    for position, time in index_ends(fs, memory.root).items():
        wanted_time = times.get(position, time)
        require(time == wanted_time, f"an index file says {time} for the record at {position} of {wanted_time}")
