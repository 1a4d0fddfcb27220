"""Errors and stacks that are one failure, and those that are two."""

from __future__ import annotations

import pytest

from litemq.spark.jobs.dlq import Group, group_of, key_of
from litemq.spark.jobs.stacks import error_key, stack_key

PYTHON = """Traceback (most recent call last):
  File "/srv/{place}/worker.py", line {line}, in run
    handle(message)
  File "/srv/{place}/pay.py", line {line}, in charge
    card.take({line})
    ~~~~~~~~~^^^^^^^
ValueError: card {line} refused
"""
JAVA = """java.lang.IllegalStateException: order {line} is closed
\tat com.shop.Orders.close(Orders.java:{line})
\tat com.shop.Orders.lambda$run${line}(Orders.java:{line})
\tat com.shop.Main$$Lambda/0x00007f{line}a2.run(Unknown Source)
\t... {line} more
"""
GO = """goroutine {line} [running]:
main.charge(0xc0000{line}, 0x{line})
\t/srv/app/pay.go:{line} +0x{line}d
main.main()
\t/srv/app/main.go:{line} +0x1d
"""


@pytest.mark.parametrize(
    ("stack", "key"),
    [
        (PYTHON, "pay.py:charge < worker.py:run"),
        (JAVA, "com.shop.Orders.close < com.shop.Orders.lambda$# < com.shop.Main#.run"),
        (GO, "pay.go < main.go"),
    ],
)
def test_a_stack_reads_the_same_every_time(stack: str, key: str) -> None:
    assert {stack_key(stack.format(line=line, place=place)) for line in (7, 1234) for place in "ab"} == {key}


def test_only_the_innermost_frames_count() -> None:
    frames = [f'  File "/a/f{number}.py", line 1, in g\n' for number in range(9)]
    assert stack_key("".join(frames)) == "f8.py:g < f7.py:g < f6.py:g < f5.py:g < f4.py:g"
    assert stack_key("".join(frames)) == stack_key("".join(frames[3:]))
    assert stack_key("".join(frames)) != stack_key("".join(frames[:-1]))


def test_what_is_no_stack() -> None:
    assert stack_key("") == ""
    assert stack_key("Traceback\n  order 17 is gone\n") == "order # is gone"
    assert stack_key('  File "<string>", line 1\n') == "<string>:?"


@pytest.mark.parametrize(
    ("error", "key"),
    [
        ("", ""),
        ("\n order 17 not found\nmore", "order # not found"),
        ("took 3.5 s, at most 2,000 ms: -1", "took # s, at most # ms: #"),
        ("at 2026-05-01T12:00:59.123Z", "at #"),
        ("no key 'o-17' in \"eu\"", "no key … in …"),
        ("it's gone", "it's gone"),
        ("<Order object at 0x7f3A9c>", "<Order object at #>"),
        ("id 123e4567-e89b-42d3-a456-426614174000", "id #"),
        ("digest deadbeefdeadbeef0011", "digest #"),
        ("HTTP2 failed for v2 of utf8", "HTTP2 failed for v2 of utf8"),
        ("x" * 300, "x" * 200),
    ],
)
def test_an_error_reads_the_same_every_time(error: str, key: str) -> None:
    assert error_key(error) == key


def test_groups_know_first_last_and_some_ids() -> None:
    row = {
        "topic": "%DLQ%billing", "group": None, "origin_topic": None, "reason": None, "error": "card 7", "stack": None,
        "properties": [("RETRY_TOPIC", "orders")], "message_id": "m1", "died_ms": 500, "store_timestamp": None,
    }  # fmt: skip
    assert key_of(row) == ("billing", "orders", "unknown", "card #", "")
    both = group_of(row).with_others(Group(4, 100, 400, ("m4", "m3", "m2")))
    assert both == Group(5, 100, 500, ("m1", "m2", "m3"))
