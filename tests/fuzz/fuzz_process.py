"""A process that throws frames at a broker; prints what became of them as one JSON object.

python -m tests.fuzz.fuzz_process HOST PORT SEED COUNT
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from contextlib import suppress
from random import Random

from tests.support import raw_client as raw
from tests.support.fuzz_frames import LATER, Fuzzer
from tests.support.raw_client import RawClient

LAST = 0x7ABC0000


def attack(place: tuple[str, int], seed: int, count: int) -> Counter[str]:
    """Throw ``count`` frames; return how many of which kind, and which codes came back."""
    fuzzer, rng = Fuzzer(seed), Random(seed)
    tally: Counter[str] = Counter()
    while tally["frames"] < count:
        with RawClient(place) as client:
            with suppress(ConnectionError):
                for _ in range(rng.choice((1, 1, 3))):
                    _well_formed(client, fuzzer, rng.choice((1, 20, 60)), tally)
            with suppress(ConnectionError):
                _broken(client, fuzzer, rng, tally)
    return tally


def _well_formed(client: RawClient, fuzzer: Fuzzer, count: int, tally: Counter[str]) -> None:
    """Send frames by the rules, and a last one; when that is answered, all others must be that can be."""
    frames = []
    waiting = {}
    for number in range(count):
        code, is_answered, data = fuzzer.request(number)
        if is_answered and code not in LATER:
            waiting[number] = code, data
        frames.append(data)
    frames.append(raw.frame(raw.MAX_OFFSET, {"topic": "none", "queueId": "0"}, opaque=LAST))
    client.write(b"".join(frames))
    tally["frames"] += count
    last_seen = False
    while not last_seen or waiting:
        try:
            answer = client.read()
        except TimeoutError:
            tally["unanswered"] += len(waiting) + (not last_seen)
            for code, data in waiting.values():
                sys.stderr.write(f"not answered: {code} {data[:2000]!r}\n")
            return
        except ConnectionError:
            tally["closed"] += 1
            for code, data in waiting.values():
                sys.stderr.write(f"closed by one of: {code} {data[:500]!r}\n")
            raise
        last_seen = last_seen or answer.opaque == LAST
        if answer.is_answer:
            waiting.pop(answer.opaque, None)
            tally[f"code {answer.code}"] += 1


def _broken(client: RawClient, fuzzer: Fuzzer, rng: Random, tally: Counter[str]) -> None:
    """Send what is no frame, and wait for the end; some leave in the middle."""
    client.write(fuzzer.nonsense())
    tally["frames"] += 1
    tally["broken"] += 1
    if rng.random() < 0.5:
        return
    client.finish()
    with suppress(TimeoutError):
        while True:
            client.read()
    tally["left open"] += 1


def main() -> None:
    """Run as the command line says."""
    host, port, seed, count = sys.argv[1:]
    sys.stdout.write(json.dumps(attack((host, int(port)), int(seed), int(count))) + "\n")


if __name__ == "__main__":
    main()
