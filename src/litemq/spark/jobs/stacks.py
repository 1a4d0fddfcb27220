"""Errors and stacks without what differs from one time to the next, so that equal failures are counted together.

What is left out: numbers, addresses, ids in hex, the times and the text in quotes of an error; of a stack also the
source lines, the directories and the line numbers, and all but its innermost frames.
"""

from __future__ import annotations

import re
from typing import Final

FRAMES: Final = 5
_MAX_ERROR: Final = 200
_TIME: Final = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d(?:[.,]\d+)?)?(?:Z|[+-]\d\d:?\d\d)?")
_ID: Final = re.compile(r"0x[0-9a-fA-F]+|\b[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}\b|\b[0-9a-fA-F]{16,}\b")
_QUOTED: Final = re.compile(r"'(?:[^'\\\n]|\\.)*'|\"(?:[^\"\\\n]|\\.)*\"")
_NUMBER: Final = re.compile(r"(?<![A-Za-z_])[+-]?\d+(?:[.,:]\d+)*")
_PYTHON: Final = re.compile(r'^\s*File "(?P<file>[^"]*)", line \d+(?:, in (?P<name>.+))?$')
_JAVA: Final = re.compile(r"^\s*at (?P<name>[\w.$<>/]+)\((?P<file>[^():]*)(?::\d+)?\)")
_GO: Final = re.compile(r"^\s*(?P<file>\S+\.go):\d+")


def error_key(error: str) -> str:
    """Return an error as it reads every time.

    >>> error_key("order 17 of 'eu-west' not found at 0x7f3a")
    'order # of … not found at #'
    """
    first = next((line.strip() for line in error.splitlines() if line.strip()), "")
    return _NUMBER.sub("#", _QUOTED.sub("…", _ID.sub("#", _TIME.sub("#", first))))[:_MAX_ERROR]


def stack_key(stack: str) -> str:
    """Return the innermost frames of a stack, of Python, Java or Go; its last line when it has none.

    >>> stack_key('Traceback:\\n  File "/srv/app/pay.py", line 7, in charge\\n    card.take(17)\\nValueError: 17')
    'pay.py:charge'
    """
    lines = stack.splitlines()
    python = [f"{_file(one['file'])}:{one['name'] or '?'}" for one in map(_PYTHON.match, lines) if one]
    if python:
        return " < ".join(reversed(python[-FRAMES:]))
    java = [_lambda(one["name"]) for one in map(_JAVA.match, lines) if one]
    if java:
        return " < ".join(java[:FRAMES])  # the innermost frame comes first
    go = [_file(one["file"]) for one in map(_GO.match, lines) if one]
    if go:
        return " < ".join(go[:FRAMES])
    return error_key(next((line for line in reversed(lines) if line.strip()), ""))


def _file(path: str) -> str:
    return re.split(r"[/\\]", path)[-1]


def _lambda(name: str) -> str:
    """Return a name of Java without what its compiler numbers."""
    return re.sub(r"\$\$Lambda[^.]*|(?<=\$)\d+|(?<=lambda\$)\w+\$\d*", "#", name)
