"""Kernel: count what producers sent, by topic and producer group, a run of equal rows at a time.

Each count belongs to the hour in which its messages were stored, to the millisecond, so that whoever reads the log
later can compare it with what is there.
"""

from __future__ import annotations

try:
    import cython
except ModuleNotFoundError:
    from litemq import _cython_shim as cython

if cython.compiled:
    from cython.cimports.litemq.format._byte_order_h import same
    from cython.cimports.litemq.format._spans_cy import Spans
else:
    from litemq.format._spans_cy import Spans
    from litemq.format.byte_order import same

from litemq.format import spans as columns
from litemq.format.stats_records import HOUR_MS

_ENTRY_COUNT = cython.declare(cython.Py_ssize_t, columns.ENTRY_COUNT)
_TOPIC_AT = cython.declare(cython.Py_ssize_t, columns.TOPIC_AT)
_TOPIC_SIZE = cython.declare(cython.Py_ssize_t, columns.TOPIC_SIZE)
_GROUP_AT = cython.declare(cython.Py_ssize_t, columns.GROUP_AT)
_GROUP_SIZE = cython.declare(cython.Py_ssize_t, columns.GROUP_SIZE)
_STORE_TIME = cython.declare(cython.Py_ssize_t, columns.STORE_TIME)
_WIDTH = cython.declare(cython.Py_ssize_t, columns.WIDTH)
_HOUR_MS = cython.declare(cython.longlong, HOUR_MS)


def is_compiled() -> bool:
    """Return whether this module runs as machine code."""
    return bool(cython.compiled)


@cython.cclass
class SentCell:
    """How many messages one producer group sent to one topic; the names are UTF-8."""

    if not cython.compiled:
        __slots__ = ("count", "group", "topic")

    def __init__(self, topic: bytes, group: bytes) -> None:
        self.topic = topic
        self.group = group
        self.count = 0


@cython.cclass
class SentCounts:
    """What was sent since the counts were taken last."""

    if not cython.compiled:
        __slots__ = ("cells", "hour", "hour_end", "last", "past")

    def __init__(self) -> None:
        self.cells: dict[tuple[bytes, bytes], SentCell] = {}
        """By topic and group, of the hour that runs."""
        self.past: list[tuple[int, list[SentCell]]] = []
        """Hours that ended since."""
        self.hour = 0
        self.hour_end = 0
        self.last = SentCell(b"", b"")

    @cython.ccall
    @cython.exceptval(-1)
    def note_rows(self, spans: Spans, first: cython.Py_ssize_t, done: cython.Py_ssize_t) -> cython.int:
        """Count the sends in rows ``first`` to ``done``, which the store has taken."""
        row: cython.Py_ssize_t = first
        s: cython.Py_ssize_t
        while row < done:
            s = row * _WIDTH
            if spans.rows[s + _STORE_TIME] >= self.hour_end:
                self.turn(spans.rows[s + _STORE_TIME])
            if not self.is_last(spans, s):
                self.find(spans, s)
            self.last.count += spans.rows[s + _ENTRY_COUNT]
            row += spans.rows[s + _ENTRY_COUNT]
        return 0

    @cython.cfunc
    @cython.exceptval(check=False)
    def is_last(self, spans: Spans, s: cython.Py_ssize_t) -> cython.bint:
        """Return whether a row has the topic and the group of the one before."""
        p: cython.p_uchar = spans.text
        last: SentCell = self.last
        topic: cython.Py_ssize_t = spans.rows[s + _TOPIC_SIZE]
        group: cython.Py_ssize_t = spans.rows[s + _GROUP_SIZE]
        return (
            len(last.topic) == topic
            and len(last.group) == group
            and same(p, spans.rows[s + _TOPIC_AT], last.topic, 0, topic)
            and same(p, spans.rows[s + _GROUP_AT], last.group, 0, group)
        )

    @cython.cfunc
    @cython.exceptval(-1)
    def find(self, spans: Spans, s: cython.Py_ssize_t) -> cython.int:
        """Make the cell of a row the last one."""
        text: bytearray = spans.text
        at: cython.Py_ssize_t = spans.rows[s + _TOPIC_AT]
        topic = bytes(text[at : at + spans.rows[s + _TOPIC_SIZE]])
        at = spans.rows[s + _GROUP_AT]
        self.choose(topic, bytes(text[at : at + spans.rows[s + _GROUP_SIZE]]))
        return 0

    @cython.cfunc
    @cython.exceptval(-1)
    def choose(self, topic: bytes, group: bytes) -> cython.int:
        """Make the cell of a topic and a group the last one."""
        found = self.cells.get((topic, group))
        if found is None:
            found = self.cells[topic, group] = SentCell(topic, group)
        self.last = found
        return 0

    @cython.cfunc
    @cython.exceptval(-1)
    def turn(self, store_time: cython.longlong) -> cython.int:
        """Begin the hour of a time."""
        if self.cells:
            self.past.append((self.hour, list(self.cells.values())))
            self.cells = {}
        self.last = SentCell(b"", b"")
        self.hour = store_time - store_time % _HOUR_MS
        self.hour_end = self.hour + _HOUR_MS
        return 0

    def note(self, topic: str, group: str, count: int, store_time: int) -> None:
        """Count messages that did not come by the table of spans."""
        if store_time >= self.hour_end:
            self.turn(store_time)
        self.choose(topic.encode("utf-8", "replace"), group.encode("utf-8", "replace"))
        self.last.count += count

    def take(self) -> list[tuple[int, dict[str, dict[str, int]]]]:
        """Return for each hour what was sent: topic → producer group → messages; and begin anew."""
        if not self.cells and not self.past:
            return []
        self.turn(self.hour)
        past, self.past = self.past, []
        answer = []
        for hour, cells in past:
            sent: dict[str, dict[str, int]] = {}
            for cell in cells:
                groups = sent.setdefault(cell.topic.decode("utf-8", "replace"), {})
                name = cell.group.decode("utf-8", "replace")
                groups[name] = groups.get(name, 0) + cell.count
            answer.append((hour, sent))
        return answer
