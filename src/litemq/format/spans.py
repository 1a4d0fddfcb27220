"""The table of what one socket read brought: one row of 64-bit integers per message, pull or other request.

``wire`` fills it from frames, ``store`` appends its plain sends and notes where they went, ``wire`` encodes the
answers from the same rows.  ``…_AT`` is a place, ``…_SIZE`` a number of bytes: those of frames and bodies lie in the
buffer that was read, all other ones in the table's own text, into which header texts and the properties of a batch
are copied, unescaped.  ``_spans_cy`` has the table itself.
"""

from __future__ import annotations

from array import array

COLUMNS = (
    "KIND",
    "FRAME_AT",  # the whole frame, its length word included
    "FRAME_SIZE",
    "CODEC",  # 0 JSON, 1 binary
    "CODE",  # of the request; not known in a JSON header that is not sound
    "OPAQUE",
    "COMMAND_FLAG",  # bit 0 response, bit 1 oneway
    "VERSION",
    "BODY_AT",  # in a batch: of the entry
    "BODY_SIZE",
    "ENTRY_COUNT",  # rows of the request: a batch's entries, else 1
    "TOPIC_AT",
    "TOPIC_SIZE",
    "GROUP_AT",
    "GROUP_SIZE",
    "PROPERTIES_AT",
    "PROPERTIES_SIZE",
    "QUEUE_ID",
    "SYS_FLAG",
    "BORN_TIME",
    "MESSAGE_FLAG",
    "RECONSUME_TIMES",
    "OFFSET",  # from here on to RECORD_FORMAT: pulls
    "MAX_COUNT",
    "MAX_BYTES",  # -1: not said
    "COMMIT_OFFSET",
    "SUSPEND_MS",
    "SUB_VERSION",
    "SUBSCRIPTION_AT",  # size 0: not said, or empty
    "SUBSCRIPTION_SIZE",
    "EXPRESSION_AT",  # expressionType; size 0: not said
    "EXPRESSION_SIZE",
    "RECORD_FORMAT",  # 1: the client reads litemq records, 0: RocketMQ's
    "POSITION",  # from here on: what the store says of a send
    "STORED_SIZE",  # of the record; 0: not stored
    "QUEUE_OFFSET",
    "STORE_TIME",
    "ID_AT",  # UNIQ_KEY
    "ID_SIZE",
)
(
    KIND,
    FRAME_AT,
    FRAME_SIZE,
    CODEC,
    CODE,
    OPAQUE,
    COMMAND_FLAG,
    VERSION,
    BODY_AT,
    BODY_SIZE,
    ENTRY_COUNT,
    TOPIC_AT,
    TOPIC_SIZE,
    GROUP_AT,
    GROUP_SIZE,
    PROPERTIES_AT,
    PROPERTIES_SIZE,
    QUEUE_ID,
    SYS_FLAG,
    BORN_TIME,
    MESSAGE_FLAG,
    RECONSUME_TIMES,
    OFFSET,
    MAX_COUNT,
    MAX_BYTES,
    COMMIT_OFFSET,
    SUSPEND_MS,
    SUB_VERSION,
    SUBSCRIPTION_AT,
    SUBSCRIPTION_SIZE,
    EXPRESSION_AT,
    EXPRESSION_SIZE,
    RECORD_FORMAT,
    POSITION,
    STORED_SIZE,
    QUEUE_OFFSET,
    STORE_TIME,
    ID_AT,
    ID_SIZE,
) = range(len(COLUMNS))

WIDTH = len(COLUMNS)

# -- kinds --------------------------------------------------------------------------------------

OTHER = 0  # a request that is not hot, or has something odd: the caller decodes the frame
SEND = 1
BATCH = 2  # the first entry of a batch
MORE = 3  # a following entry of the same batch
PULL = 4
ANSWER = 5  # to a call that we made
END = 6  # of a transaction: GROUP, ID, decision in SYS_FLAG, its half message by OFFSET and COMMIT_OFFSET (position)

# -- why a split ended --------------------------------------------------------------------------

SPLIT = 0  # all whole frames are in the table
FULL = 1  # the table is: serve its rows, then go on behind what was consumed
BAD_FRAME = 2  # behind what was consumed lies no frame: serve the rows, then close the connection

ROW_LIMIT = 8192
"""Rows of one split.  A batch with more entries is not split here."""


def table(count: int) -> array[int]:
    """Return room for ``count`` rows."""
    return array("q", bytes(8 * WIDTH * count))
