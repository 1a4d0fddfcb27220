"""Records as remoting clients read them: RocketMQ's, without LiteMQ's internal properties.

``_transcode_cy`` does it; here is the longer way for the records that it leaves, and its face for single records.
"""

from __future__ import annotations

from litemq.errors import InvalidRequest
from litemq.format import rows
from litemq.format._scan_cy import LITEMQ, scan
from litemq.format._transcode_cy import as_rocketmq, stripped
from litemq.format.compression import DoesNotDecompress
from litemq.format.litemq import decode_row
from litemq.format.record import to_message, to_placement
from litemq.format.rocketmq import encode


def to_rocketmq(code: int, record: bytes, position: int) -> bytes | None:
    """Return a stored record of format ``code`` as clients read it; None when it is damaged or cannot be said so."""
    if code != LITEMQ:
        whole: bytes | None = stripped(record)
        return whole
    answer: bytes | int = as_rocketmq(record, position)
    if isinstance(answer, bytes):
        return answer
    return odd_to_rocketmq(record, position) if answer else None


def odd_to_rocketmq(record: bytes, position: int) -> bytes | None:
    """Do as the kernel for any ``litemq`` record, through its message."""
    table = rows.table(1)
    count, _, _ = scan(LITEMQ, record, 0, len(record), position, table)
    if not count:
        return None
    try:
        found = decode_row(memoryview(record), table, "")
        whole = encode(to_message(found), to_placement(found, position))
    except (DoesNotDecompress, InvalidRequest):  # what does not fit RocketMQ's fields cannot be given to its clients
        return None
    answer: bytes | None = stripped(whole)
    return answer
