"""Write docs/reference/sdk.md from the docstrings of the SDK; with ``--check`` say whether it is as they are.

    .venv/bin/python scripts/sdk_reference.py

The plain build is read: compiled functions do not tell their arguments the same way.
"""

from __future__ import annotations

import inspect
import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import get_args, get_type_hints

if __name__ == "__main__":
    os.environ["LITEMQ_PURE"] = "1"  # before the package is imported

import litemq
from litemq import aio, outbox, telemetry, testing
from litemq.client.hooks import Hooks

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "reference" / "sdk.md"

SHELVES = (
    ("Sending", ("Producer", "Message", "Sent")),
    ("Sending in transactions", ("TransactionProducer", "Transaction", "Decision")),
    ("Batch transactions", ("BatchTransactions", "Staged", "BatchStatus")),
    (
        "Consuming",
        ("PushConsumer", "PullConsumer", "SimpleConsumer", "Tags", "Sql", "Reject", "Retry", "TopicQueue"),
    ),
    ("Operating", ("Admin",)),
    (
        "Errors",
        (
            *("LiteMQError", "InvalidRequest", "Unavailable", "StorageError", "OutcomeUnknown", "NoAnswer"),
            *("BufferFull", "Busy", "Closed", "UnknownTopic", "UnknownGroup", "BadFilter", "RecordTooLarge"),
            *("StaleEpoch", "TransactionOver", "RowsMissing"),
        ),
    ),
)
NOT_HERE = {"MessageStore", "StoreConfig", "__version__", "COMMIT", "ROLLBACK", "UNKNOWN"}
"""What works on files: docs/tutorial/first-store.md, docs/reference/store-config.md; and the values of ``Decision``."""

HEAD = "\n".join(
    (
        "# Python SDK",
        "",
        "Every class below is blocking and stands in `litemq`.",
        "`litemq.aio` has those that wait under the same names, with the same arguments: their methods are coroutines, "
        "handlers are `async def`, and `async with` and `async for` stand in place of `with` and `for`.",
        "`send_async` returns an `asyncio.Future` there.",
        "",
        "Times are seconds, as `float` or `datetime.timedelta`; points in time are aware `datetime` or epoch "
        "milliseconds as `int`.",
        'Name servers are given as `nameservers="host:port"`, several as a list or with semicolons between them; '
        "else `LITEMQ_NAMESERVER` says where they are, else they are at `127.0.0.1:9876`.",
        "",
        "The examples run in CI, with `import litemq` before them and a broker that `LITEMQ_NAMESERVER` names.",
        "This page is made from the docstrings by `scripts/sdk_reference.py`.",
        "",
    )
)

WIDTH = 100
_SECTION = re.compile(r"(Args|Raises|Returns|Yields):$")
_TERM = re.compile(r"(\*{0,2}\w+): (.*)", re.DOTALL)


def page() -> str:
    """Return the page."""
    listed = [name for _, names in SHELVES for name in names]
    missing = set(litemq.__all__) - set(listed) - NOT_HERE
    if missing:
        raise SystemExit(f"sdk_reference: SHELVES does not have: {', '.join(sorted(missing))}")
    parts = [HEAD]
    for title, names in SHELVES:
        parts.append(f"## {title}\n")
        for name in names:
            if name in litemq.__all__:
                parts += of_name(f"litemq.{name}", getattr(litemq, name), "###")
        if title == "Operating":
            for found in returned_by(aio.Admin):
                parts += of_name(found.__name__, found, "###")
    parts.append("## Outbox\n")
    parts += text_of(inspect.getdoc(outbox) or "")
    for kind in (outbox.Outbox, outbox.OutboxRelay, outbox.OutboxCounters):
        parts += of_name(f"litemq.outbox.{kind.__name__}", kind, "###")
    parts.append("## Tracing\n")
    parts += text_of(inspect.getdoc(telemetry) or "")
    parts += of_name("litemq.telemetry.OpenTelemetryHooks", telemetry.OpenTelemetryHooks, "###")
    parts += of_name("Hooks", Hooks, "###")
    parts.append("## Testing\n")
    parts += text_of(inspect.getdoc(testing) or "")
    for name in testing.__all__:
        parts += of_name(f"litemq.testing.{name}", getattr(testing, name), "###")
    return "\n".join(parts).rstrip("\n") + "\n"


def of_name(name: str, found: object, heading: str) -> Iterator[str]:
    """Yield what the page says of a class or a function."""
    short = name.removeprefix("litemq.")
    yield f"{heading} {short}\n"
    is_error = isinstance(found, type) and issubclass(found, litemq.LiteMQError)
    if callable(found) and not is_error:
        yield f"```python\n{signature(short, found)}\n```\n"
    yield from text_of(inspect.getdoc(found) or "")
    if not isinstance(found, type) or is_error:
        return
    for member, value in members(found):
        if isinstance(value, property):
            yield f"**`{short}.{member}`**: " + "\n".join(text_of(inspect.getdoc(value) or ""))
        else:
            yield f"#### {short}.{member}\n"
            yield f"```python\n{signature(f'{short}.{member}', getattr(found, member))}\n```\n"
            yield from text_of(inspect.getdoc(getattr(found, member)) or "")


def returned_by(kind: type) -> list[type]:
    """Return the classes, not exported ones, of what a class's methods return and of what is in that."""
    found: list[type] = []

    def look(told: object) -> None:
        for part in get_args(told):
            look(part)
        is_ours = isinstance(told, type) and told.__module__.startswith("litemq.client.")
        if not is_ours or told in found or told in vars(litemq).values():
            return
        assert isinstance(told, type)
        found.append(told)
        for field in get_type_hints(told).values():
            look(field)

    for name in dir(kind):
        method = getattr(kind, name)
        if not name.startswith("_") and inspect.isfunction(method):
            look(get_type_hints(method)["return"])
    return sorted(found, key=lambda one: one.__name__)


def members(kind: type) -> list[tuple[str, object]]:
    """Return the public methods and properties of a class, properties first, each as it stands in the source."""
    found: dict[str, object] = {}
    for one in reversed(kind.__mro__):
        if one.__module__.startswith("litemq."):
            found.update({name: value for name, value in vars(one).items() if not name.startswith("_")})
    wanted = [
        (name, value)
        for name, value in found.items()
        if isinstance(value, property | staticmethod | classmethod) or inspect.isfunction(value)
    ]
    return sorted(wanted, key=lambda one: not isinstance(one[1], property))


def signature(name: str, found: object) -> str:
    """Return how something is called, on several lines where one is too short."""
    assert callable(found)
    written = []
    try:
        told = inspect.signature(found)
    except ValueError:  # an exception without a constructor of its own
        return f"{name}(text)"
    kinds = [one.kind for one in told.parameters.values()]
    star = next((at for at, kind in enumerate(kinds) if kind is inspect.Parameter.KEYWORD_ONLY), None)
    for at, one in enumerate(told.parameters.values()):
        if at == star and inspect.Parameter.VAR_POSITIONAL not in kinds:
            written.append("*")
        if one.name != "self":
            written.append(parameter(one))
    returned = annotation(told.return_annotation)
    end = f") -> {returned}" if returned and returned != "None" and not isinstance(found, type) else ")"
    line = f"{name}({', '.join(written)}{end}"
    if len(line) <= WIDTH:
        return line
    return f"{name}(\n" + "".join(f"    {one},\n" for one in written) + end


def parameter(one: inspect.Parameter) -> str:
    """Return a parameter as it is written."""
    text = one.name
    if one.kind is inspect.Parameter.VAR_POSITIONAL:
        text = f"*{text}"
    elif one.kind is inspect.Parameter.VAR_KEYWORD:
        text = f"**{text}"
    told = annotation(one.annotation)
    if told:
        text += f": {told}"
    if one.default is not inspect.Parameter.empty:
        default = getattr(one.default, "__name__", None) or shown(one.default)
        text += f" = {default}" if told else f"={default}"
    return text


def shown(default: object) -> str:
    """Return a default as it is written in the source."""
    return f'"{default}"' if isinstance(default, str) else repr(default)


def annotation(told: object) -> str:
    """Return a type as it is written in the source."""
    if told is inspect.Signature.empty:
        return ""
    return told if isinstance(told, str) else str(getattr(told, "__name__", told))


def text_of(text: str) -> Iterator[str]:
    """Yield the paragraphs of a docstring: prose, examples, arguments and errors."""
    for block in re.split(r"\n\s*\n", text.strip()):
        lines = block.splitlines()
        if lines[0].startswith(">>>"):
            yield "```pycon\n" + "\n".join(lines) + "\n```\n"
        elif _SECTION.match(lines[0]):
            yield from terms(lines)
        elif lines[0].startswith("    "):
            yield "```python\n" + inspect.cleandoc(block) + "\n```\n"
        elif any(line.startswith(">>>") for line in lines):
            at = next(at for at, line in enumerate(lines) if line.startswith(">>>"))
            yield prose(" ".join(lines[:at])) + "\n"
            yield "```pycon\n" + "\n".join(lines[at:]) + "\n```\n"
        else:
            yield prose(" ".join(line.strip() for line in lines)) + "\n"


def terms(lines: list[str]) -> Iterator[str]:
    """Yield a section of a docstring as a table."""
    title = lines[0].rstrip(":")
    body = inspect.cleandoc("\n".join(["", *lines[1:]]))
    entries = re.split(r"\n(?! )", body)
    if title in ("Args", "Raises"):
        yield (
            {"Args": "| argument | |", "Raises": "| raises | when |"}[title]
            + "\n|---|---|\n"
            + "".join(row(" ".join(entry.split())) for entry in entries)
        )
    else:
        yield f"{title}: " + prose(" ".join(body.split())) + "\n"


def row(entry: str) -> str:
    """Return an argument and what is said of it as a row of a table."""
    match = _TERM.match(entry)
    name, said = (match[1], match[2]) if match else ("", entry)
    cell = plain(said).replace("|", "\\|")
    return f"| `{name}` | {cell} |\n"


def prose(text: str) -> str:
    """Return text with one sentence on a line."""
    return re.sub(r"(?<=[a-z`)0-9’'])([.:?!]) +(?=[A-Z`])", lambda match: match[1] + "\n", plain(text)).replace(
        ":\n", ": "
    )


def plain(text: str) -> str:
    """Return text with Markdown's marks for code."""
    return text.replace("``", "`").strip()


def main(arguments: list[str]) -> int:
    """Write the page, or compare it."""
    made = page()
    if arguments == ["--check"]:
        if PAGE.exists() and PAGE.read_text() == made:
            return 0
        print(f"{PAGE.relative_to(ROOT)} is not as the docstrings are; run: python scripts/sdk_reference.py")
        return 1
    PAGE.write_text(made)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
