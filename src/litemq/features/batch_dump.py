"""The state of batch transactions as JSON has it, for snapshots."""

from __future__ import annotations

from typing import Any

from litemq.features.batch_parts import Chunk, Decision, Key, Memory, Open, Part, Place, Publication
from litemq.features.batch_transaction import Batches
from litemq.format.batch_records import Winner


def dump(state: Batches) -> dict[str, Any]:
    """Return the whole state."""
    opened = [(name, epoch, one) for name, epochs in state.open.items() for epoch, one in epochs.items()]
    return {
        "open": [[name, epoch, one.coordinator, one.touched_ms] for name, epoch, one in opened],
        "parts": [
            [*key, *place, [[c.sequence, *c.place, c.count, c.size, c.checksum] for c in part.chunks.values()]]
            for key, place, part in state.parts()
        ],
        "memories": [
            [name, m.epoch, m.is_committed, m.rows, m.used_ms, m.coordinator, m.reason, m.said_at]
            for name, m in state.memories.items()
        ],
        "publications": [
            [*key, one.winners, one.total, one.said_at, one.done, one.behind] for key, one in state.publications.items()
        ],
        "decisions": [
            [*key, one.winners, one.confirmed, sorted(one.waiting), one.rows, one.told_ms, one.said_at]
            for key, one in state.decisions.items()
        ],
    }


def load(name: str, found: dict[str, Any]) -> Batches:
    """Return the state of the broker ``name`` that was dumped.

    Raises:
        KeyError, TypeError, ValueError: it is none.
    """
    state = Batches(name)
    for producer_id, *values in found["memories"]:
        state.memories[producer_id] = Memory(*values)
    for producer_id, epoch, winners, total, said_at, done, behind in found["publications"]:
        made = Publication(_winners(winners), {}, total, said_at, done, behind)
        made.parts = {(one.partition, one.attempt): Part() for one in made.winners}
        state.publications[Key(producer_id, epoch)] = made
    for producer_id, epoch, winners, confirmed, waiting, *values in found["decisions"]:
        state.decisions[Key(producer_id, epoch)] = Decision(_winners(winners), tuple(confirmed), set(waiting), *values)
    for producer_id, epoch, coordinator, touched_ms in found["open"]:
        state.open.setdefault(producer_id, {})[epoch] = Open(coordinator, touched_ms)
        state.open_count += 1
    for producer_id, epoch, partition, attempt, chunks in found["parts"]:
        key = Key(producer_id, epoch)
        home = state.publications[key].parts if key in state.publications else state.open[producer_id][epoch].parts
        part = home.setdefault((partition, attempt), Part())
        for sequence, offset, position, origin, count, size, checksum in chunks:
            state.staged_bytes += part.put(Chunk(sequence, Place(offset, position, origin), count, size, checksum))
    return state


def _winners(found: list[Any]) -> tuple[Winner, ...]:
    return tuple(Winner(*item) for item in found)
