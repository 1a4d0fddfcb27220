"""The table that kernels speak: one row of 64-bit integers per record.

``scan`` fills it from log bytes, ``encode`` while it writes them, the dispatcher feeds ConsumeQueues and key index
from it, ``decode`` slices values out of it.  ``…_AT`` is a place in the scanned buffer, ``…_SIZE`` a number of bytes.
"""

from __future__ import annotations

from array import array

COLUMNS = (
    "POSITION",  # of the record's first byte in the log
    "SIZE",  # of the whole frame
    "CHECKED",  # 1: a checksum was there and is right, 0: there is none
    "QUEUE_ID",
    "QUEUE_OFFSET",
    "TAG_HASH",  # what the queue entry holds; 0 without a tag
    "STORE_TIME",  # tmq: the born time
    "STATUS",
    "TOPIC_AT",
    "TOPIC_SIZE",
    "ID_AT",
    "ID_SIZE",
    "KEYS_AT",
    "KEYS_SIZE",
    "KEYS_COUNT",  # litemq: texts in the list; -1: one text, keys split at blanks
    "TAG_AT",  # the first tag
    "TAG_SIZE",
    "PROPERTIES_AT",
    "PROPERTIES_SIZE",
    "BODY_AT",
    "BODY_SIZE",
    "SYS_FLAG",
    "REST_AT",  # where the fields behind the variable part begin (format's own business)
    "VERSION",
    "ORIGIN",  # position in __ORIGIN, -1 without
    "SPARE",
)
(
    POSITION,
    SIZE,
    CHECKED,
    QUEUE_ID,
    QUEUE_OFFSET,
    TAG_HASH,
    STORE_TIME,
    STATUS,
    TOPIC_AT,
    TOPIC_SIZE,
    ID_AT,
    ID_SIZE,
    KEYS_AT,
    KEYS_SIZE,
    KEYS_COUNT,
    TAG_AT,
    TAG_SIZE,
    PROPERTIES_AT,
    PROPERTIES_SIZE,
    BODY_AT,
    BODY_SIZE,
    SYS_FLAG,
    REST_AT,
    VERSION,
    ORIGIN,
    SPARE,
) = range(len(COLUMNS))

WIDTH = len(COLUMNS)

NEVER = -1
"""Instead of a position: there is none from which on every record has a checksum of the whole of it."""


def table(count: int) -> array[int]:
    """Return room for ``count`` rows."""
    return array("q", bytes(8 * WIDTH * count))


# -- why a scan stopped -------------------------------------------------------------------------

ROOM = 0  # the table is full: call again
END = 1  # the written part ends here: zeros, or fewer than four zero bytes
FILLER = 2  # the rest of the segment is a filler
CUT = 3  # the frame reaches beyond the bytes given
COMPRESSED = 4  # the last row's body is compressed: the caller may look into it, then go on
DAMAGE = 16  # this and above: a record that cannot be sound; REASONS says why

REASONS = {
    DAMAGE: "wrong magic",
    DAMAGE + 1: "size too small for a record",
    DAMAGE + 2: "parts do not add up to the size",
    DAMAGE + 3: "wrong checksum",
    DAMAGE + 4: "text is not UTF-8",
    DAMAGE + 5: "code out of range",
    DAMAGE + 6: "stored log offset is not the record's position",
    DAMAGE + 7: "checksum digits are not eight lower-case hex digits",
    DAMAGE + 8: "more than one checksum",
    DAMAGE + 9: "body does not decompress",
    DAMAGE + 10: "trailing bytes that are no frame",
    DAMAGE + 11: "checksum of the whole record is missing",
}
(
    WRONG_MAGIC,
    TOO_SMALL,
    DOES_NOT_ADD_UP,
    WRONG_CHECKSUM,
    NOT_UTF8,
    BAD_CODE,
    WRONG_OFFSET,
    BAD_DIGITS,
    TWO_CHECKSUMS,
    NOT_DECOMPRESSED,
    TRAILING,
    NO_CHECKSUM,
) = sorted(REASONS)
