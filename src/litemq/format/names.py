"""Names of properties and topics with a meaning: RocketMQ's well-known ones and LiteMQ's reserved ones."""

from __future__ import annotations

from typing import Final

# -- RocketMQ's, where a litemq field holds the same thing ---------------------------------------
TAGS: Final = "TAGS"
KEYS: Final = "KEYS"
UNIQ_KEY: Final = "UNIQ_KEY"
SHARDING_KEY: Final = "__SHARDINGKEY"
TRANSACTION_ID: Final = "__transactionId__"
TIMER_DELIVER_MS: Final = "TIMER_DELIVER_MS"
SHOWN_BY_A_KEY: Final = frozenset({TAGS, KEYS, UNIQ_KEY, SHARDING_KEY, TRANSACTION_ID, TIMER_DELIVER_MS})
"""Properties that the record object shows under another key (outside litemq)."""

# -- RocketMQ's, read to derive the type ---------------------------------------------------------
TRAN_MSG: Final = "TRAN_MSG"
DELAY: Final = "DELAY"
TIMER_DELAY_SEC: Final = "TIMER_DELAY_SEC"
TIMER_DELAY_MS: Final = "TIMER_DELAY_MS"
DELAY_PROPERTIES: Final = (DELAY, TIMER_DELIVER_MS, TIMER_DELAY_SEC, TIMER_DELAY_MS)

# -- checksums -----------------------------------------------------------------------------------
CRC32C: Final = "__CRC32C"
CRC32: Final = "__CRC32#"
CHECKSUMS: Final = frozenset({CRC32C, CRC32})

# -- reserved in litemq: what RocketMQ has a field for -------------------------------------------
FLAG: Final = "__FLAG"
SYS_FLAG: Final = "__SYS_FLAG"
PREPARED_OFFSET: Final = "__PREPARED_OFFSET"
RESERVED_IN_LITEMQ: Final = frozenset({FLAG, SYS_FLAG, PREPARED_OFFSET})

# -- reserved in rocketmq: what litemq has a field for -------------------------------------------
TYPE: Final = "__TYPE"
PRIORITY: Final = "__PRIORITY"
RELIABILITY: Final = "__RELIABILITY"
STATUS: Final = "__STATUS"
BROADCAST: Final = "__BROADCAST"
CONSUME_START_TIME: Final = "__CONSUME_START_TIME"
CONSUME_END_TIME: Final = "__CONSUME_END_TIME"
BORN_HOST: Final = "__BORN_HOST"
STORE_HOST: Final = "__STORE_HOST"
ALL_TAGS: Final = "__TAGS"
ALL_KEYS: Final = "__KEYS"
RESERVED_IN_ROCKETMQ: Final = frozenset(
    {
        TYPE,
        PRIORITY,
        RELIABILITY,
        STATUS,
        BROADCAST,
        CONSUME_START_TIME,
        CONSUME_END_TIME,
        BORN_HOST,
        STORE_HOST,
        ALL_TAGS,
        ALL_KEYS,
    }
)

TAKEN_IN_ROCKETMQ: Final = SHOWN_BY_A_KEY | RESERVED_IN_ROCKETMQ
"""Names that a reader of a rocketmq record may take for something else than a plain property."""

ORIGIN: Final = "__ORIGIN"
"""First position of a record that was carried or moved."""

INTERNAL: Final = CHECKSUMS | RESERVED_IN_LITEMQ | RESERVED_IN_ROCKETMQ | {ORIGIN}
"""Names that no client sees, and whose values a client cannot set."""

TYPE_NAMES: Final = ("normal", "delay", "transaction", "broadcast", "order")
STATUS_NAMES: Final = ("normal", "prepared", "committed", "rolled_back")

# -- reserved topics -----------------------------------------------------------------------------
RESERVED_TOPIC_PREFIX: Final = "LITEMQ_SYS_"
CHANGES_TOPIC: Final = "LITEMQ_SYS_CHANGES"
PROGRESS_TOPIC: Final = "LITEMQ_SYS_PROGRESS"
POP_TOPIC: Final = "LITEMQ_SYS_POP"
STAGE_TOPIC: Final = "LITEMQ_SYS_STAGE"
STATS_TOPIC: Final = "LITEMQ_SYS_STATS"
STAGE_SNAPSHOT: Final = "litemqBatches.json"
"""Of what the records of this topic say: it holds positions of one log."""
SCHEDULE_TOPIC: Final = "SCHEDULE_TOPIC_XXXX"

# -- sys flag bits -------------------------------------------------------------------------------
FLAG_COMPRESSED: Final = 0x1
FLAG_STATUS_SHIFT: Final = 2
FLAG_BORN_IPV6: Final = 0x10
FLAG_STORE_IPV6: Final = 0x20
