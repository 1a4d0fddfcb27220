"""Topics and groups with a meaning of their own, as RocketMQ names them."""

from __future__ import annotations

from litemq.features.dead_letter import DLQ_PREFIX as DEAD_PREFIX
from litemq.features.dead_letter import dead_letter_topic as dead_topic
from litemq.features.retry import RETRY_PREFIX, retry_topic
from litemq.format.names import SCHEDULE_TOPIC

# Their home is ``features``; they are names of topics all the same, and offered here with the others.
__all__ = ["DEAD_PREFIX", "RETRY_PREFIX", "dead_topic", "retry_topic"]

PERM_READ = 4
PERM_WRITE = 2
PERM_INHERIT = 1

TEMPLATE = "TBW102"
"""Topics that are made by their first message get its queues and permissions."""

HALF_TOPIC = "RMQ_SYS_TRANS_HALF_TOPIC"
HALF_OP_TOPIC = "RMQ_SYS_TRANS_OP_HALF_TOPIC"
CHECK_LIMIT_TOPIC = "TRANS_CHECK_MAX_TIME_TOPIC"
TRACE_TOPIC = "RMQ_SYS_TRACE_TOPIC"
SELF_TEST_TOPIC = "SELF_TEST_TOPIC"
OFFSET_MOVED_TOPIC = "OFFSET_MOVED_EVENT"
BENCHMARK_TOPIC = "BenchmarkTest"
WHEEL_TIMER_TOPIC = "rmq_sys_wheel_timer"
SYSTEM_PREFIX = "rmq_sys_"

CLOSED_TO_PRODUCERS = frozenset(
    {SCHEDULE_TOPIC, HALF_TOPIC, HALF_OP_TOPIC, CHECK_LIMIT_TOPIC, SELF_TEST_TOPIC, OFFSET_MOVED_TOPIC}
)


def reply_topic(cluster: str) -> str:
    """Return the topic that replies to requests name."""
    return f"{cluster}_REPLY_TOPIC"


def presets(cluster: str, broker: str) -> dict[str, tuple[int, int]]:
    """Return the topics that every broker has: name → (queues, permissions)."""
    read_write = PERM_READ | PERM_WRITE
    return {
        SELF_TEST_TOPIC: (1, read_write),
        BENCHMARK_TOPIC: (16, read_write),
        cluster: (16, read_write | PERM_INHERIT),
        broker: (1, read_write | PERM_INHERIT),
        OFFSET_MOVED_TOPIC: (1, read_write),
        SCHEDULE_TOPIC: (18, read_write),
        TRACE_TOPIC: (1, read_write),
        reply_topic(cluster): (1, read_write),
        HALF_TOPIC: (1, read_write),
        HALF_OP_TOPIC: (1, read_write),
    }


def is_system(topic: str, cluster: str, broker: str) -> bool:
    """Return whether a topic is the broker's own: listed apart, and not to be altered or deleted."""
    own = (TEMPLATE, CHECK_LIMIT_TOPIC)
    return topic in own or topic.startswith(SYSTEM_PREFIX) or topic in presets(cluster, broker)
