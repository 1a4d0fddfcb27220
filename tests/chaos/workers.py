"""The processes of a run: ``python -m tests.chaos.workers produce|consume …``; what they did goes to a file each.

A line is written at once and whole, so that a kill -9 leaves no half of one:

    produce   KEY NUMBER              it was acknowledged
    consume   KEY NUMBER ATTEMPT      the handler is done with it
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import sys
import threading
import time
from pathlib import Path

import litemq

TOPIC = "chaos"
GROUP = "chaos_group"


class Trouble(Exception):
    """What a handler raises now and then."""


def line_writer(path: str) -> int:
    """Return a file that takes whole lines only."""
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)


def produce(options: argparse.Namespace) -> int:
    """Send numbered messages of some keys until told to stop; a key goes on only when its last message is stored."""
    stops = []
    signal.signal(signal.SIGTERM, lambda *_: stops.append(True))
    Path(options.out + ".ready").touch()
    out = line_writer(options.out)
    numbers = dict.fromkeys((f"key{n}" for n in range(options.keys)), 0)
    with litemq.Producer(options.nameservers, timeout=30.0) as producer:
        while not stops:
            began = time.monotonic()
            waiting = {}
            for key, number in numbers.items():
                body = f"{key} {number}".encode()
                waiting[key] = producer.send_async(TOPIC, body, sharding_key=key)
            for key, future in waiting.items():
                try:
                    future.result()
                except litemq.Unavailable:
                    continue  # the same number again: it may be stored twice, but it must not be lost
                os.write(out, f"{key} {numbers[key]}\n".encode())
                numbers[key] += 1
            time.sleep(max(0.0, options.pause - (time.monotonic() - began)))
    return 0


def consume(options: argparse.Namespace) -> int:
    """Consume until Ctrl-C or SIGTERM, slowly now and then, failing now and then."""
    out = line_writer(options.out)
    chance = random.Random(options.seed)

    def handle(message: litemq.Message) -> None:
        dice = chance.random()
        if dice < 0.01:
            time.sleep(0.05)
        elif dice < 0.03:
            if options.ordered:
                raise Trouble(message.text())
            raise litemq.Retry("later", delay=1.0)
        os.write(out, f"{message.text()} {message.attempt}\n".encode())

    with litemq.PushConsumer(
        GROUP, {TOPIC: "*"}, handle, nameservers=options.nameservers, ordered=options.ordered, max_attempts=1000
    ) as consumer:
        threading.Timer(0.2, Path(options.out + ".ready").touch).start()  # by then it waits
        consumer.wait()
    return 0


def main() -> int:
    """Run one worker."""
    parser = argparse.ArgumentParser()
    parser.add_argument("work", choices=("produce", "consume"))
    parser.add_argument("--nameservers", required=True)
    parser.add_argument("--out", required=True)
    parser.add_argument("--keys", type=int, default=16)
    parser.add_argument("--pause", type=float, default=0.02)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--ordered", action="store_true")
    options = parser.parse_args()
    return produce(options) if options.work == "produce" else consume(options)


if __name__ == "__main__":
    sys.exit(main())
