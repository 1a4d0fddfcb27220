"""A consumer process of the soak; tells on stdout what it consumed, before it commits that.

python -m tests.soak.consumer ADDRESS CLIENT_ID
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from collections.abc import Sequence

from tests.soak.load import GROUPS, QUEUES, RETRIED, TOPICS, fails, identity
from tests.support.push_consumer import Place, PushConsumer
from tests.support.raw_client import Pulled


def handle(place: Place, tenure: str, messages: Sequence[Pulled]) -> list[Pulled]:
    """Tell of messages; return those that fail."""
    failed = []
    told = []
    for message in messages:
        topic, serial, _ = identity(message.body)
        if topic == RETRIED and fails(serial, message.reconsume_times):
            failed.append(message)
        else:
            told.append(f"{topic}:{serial}:{message.offset}")
    if told:
        group, topic, queue = place
        line = f"{group} {topic} {queue} {tenure} {time.monotonic_ns()} {' '.join(told)}\n"
        _write(line.encode())
    return failed


def _write(data: bytes) -> None:
    while data:
        data = data[os.write(1, data) :]


async def main(address: str, client_id: str) -> None:
    """Consume until SIGTERM."""
    consumer = PushConsumer(address, client_id, GROUPS, dict.fromkeys(TOPICS, QUEUES), handle)
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, consumer.stop)
    await consumer.run()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
