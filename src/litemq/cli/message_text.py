"""Messages, traces and dead letters as JSON objects and as text for people."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from litemq.cli import output

if TYPE_CHECKING:
    from litemq.client._message_cy import Message
    from litemq.client.dead_letters import DeadLetter
    from litemq.client.trace import GroupTrace, Trace
    from litemq.client.values import Sent

_PREVIEW: Final = 60
_BODY: Final = 4_000
"""Characters of a body that a person is shown; ``--body`` writes all of it."""
_HEADERS: Final = ("STORED", "QUEUE", "OFFSET", "TAGS", "KEYS", "BYTES", "BODY")


# -- JSON ------------------------------------------------------------------------------------------------------------


def message_json(message: Message) -> dict[str, object]:
    """Return the object that ``--json`` prints of a message."""
    body, encoding = body_json(message.body)
    return {
        "topic": message.topic,
        "message_id": message.message_id,
        "offset_id": message.offset_id,
        "broker": message.broker,
        "queue_id": message.queue_id,
        "queue_offset": message.queue_offset,
        "tags": message.tags,
        "keys": list(message.keys),
        "sharding_key": message.sharding_key,
        "properties": dict(message.properties),
        "born_at": message.born_ms,
        "stored_at": message.stored_ms,
        "attempt": message.attempt,
        "size": len(message.body),
        "body": body,
        "body_encoding": encoding,
    }


def body_json(body: bytes) -> tuple[str, str]:
    """Return a body as JSON can hold it, and how: as text where it is UTF-8, else in base64."""
    try:
        return body.decode(), "utf-8"
    except UnicodeDecodeError:
        return base64.b64encode(body).decode(), "base64"


def sent_json(sent: Sent) -> dict[str, object]:
    """Return the object of a message that was sent."""
    return {
        "topic": sent.topic,
        "message_id": sent.message_id,
        "broker": sent.broker,
        "queue_id": sent.queue_id,
        "queue_offset": sent.queue_offset,
    }


def dead_letter_json(dead: DeadLetter) -> dict[str, object]:
    """Return the object of a dead letter: its message, and what is known of its death."""
    own = {name: value for name, value in dead.message.properties.items() if not name.startswith("DLQ_")}
    return {
        "group": dead.group,
        "origin_topic": dead.origin_topic,
        "origin_message_id": dead.origin_message_id,
        "origin_queue": dead.origin_queue,
        "origin_offset": dead.origin_offset,
        "reason": dead.reason,
        "error": dead.error,
        "stack": dead.stack,
        "consumer_id": dead.consumer_id,
        "retry_count": dead.retry_count,
        "died_at": dead.died_ms,
        **message_json(dead.message),
        "properties": own,
    }


def trace_json(trace: Trace) -> dict[str, object]:
    """Return the object of a trace."""
    return {
        "message": message_json(trace.message),
        "is_first": trace.is_first,
        "copies": [message_json(one) for one in trace.copies],
        "groups": [
            {
                "group": one.group,
                "state": one.state,
                "committed": one.committed,
                "retries": [message_json(retry) for retry in one.retries],
                "due_at": one.due_ms,
                "dead_letters": [dead_letter_json(dead) for dead in one.dead_letters],
            }
            for one in trace.groups
        ],
    }


# -- for people ------------------------------------------------------------------------------------------------------


def write_messages(messages: Sequence[Message]) -> None:
    """Print a table of messages."""
    output.write_table(_HEADERS, [_row(message) for message in messages])


def message_line(message: Message) -> str:
    """Return one message on one line, as ``tail`` shows it."""
    stored, queue, offset, tags, keys, size, body = _row(message)
    return output.one_line(f"{stored}  {queue} #{offset}  tags={tags}  keys={keys}  {size} B  {body}")


def preview(body: bytes) -> str:
    """Return the beginning of a body."""
    text = body[: _PREVIEW * 4].decode("utf-8", "backslashreplace")
    return text if len(text) <= _PREVIEW and len(body) <= _PREVIEW * 4 else text[:_PREVIEW] + "…"


def write_message(message: Message) -> None:
    """Print all that is known of a message, then its body."""
    output.write_fields(
        [
            ("topic", message.topic),
            ("message id", message.message_id),
            ("offset id", message.offset_id),
            ("queue", f"{message.broker}/{message.queue_id} #{message.queue_offset}"),
            ("tags", message.tags or "-"),
            ("keys", " ".join(message.keys) or "-"),
            ("sharding key", message.sharding_key or "-"),
            ("born", output.time_text(message.born_ms)),
            ("stored", output.time_text(message.stored_ms)),
            ("attempt", message.attempt),
            ("properties", _pairs(message)),
            ("body", output.size_text(len(message.body))),
        ]
    )
    output.write_line()
    text = message.body.decode("utf-8", "backslashreplace")
    for line in text[:_BODY].split("\n"):
        output.write_line(output.one_line(line))
    if len(text) > _BODY:
        output.write_line("… (all of it: --body)")


def write_dead_letter(dead: DeadLetter, *, with_stack: bool) -> None:
    """Print a dead letter on a few lines."""
    message = dead.message
    where = f"{dead.origin_topic or '?'} q{dead.origin_queue} #{dead.origin_offset}"
    output.write_line(
        output.one_line(
            f"{output.time_text(dead.died_ms)}  {message.message_id}  {dead.group}  {dead.reason}  "
            f"after {dead.retry_count} retries  from {where}"
        )
    )
    output.write_line(output.one_line(f"    error  {dead.error or '-'}"))
    output.write_line(output.one_line(f"    body   {preview(message.body)}"))
    if with_stack:
        for line in (dead.stack or "-").split("\n"):
            output.write_line(output.one_line(f"    | {line}"))


def write_trace(trace: Trace) -> None:
    """Print what the log knows of a message, in the order of time."""
    message = trace.message
    if not trace.is_first:
        output.write_line("the first record is gone; this is what is left")
    output.write_line(output.one_line(f"{message.message_id}  {message.topic}  {preview(message.body)}"))
    output.write_line(f"{output.time_text(message.born_ms)}  sent")
    output.write_line(output.one_line(f"{output.time_text(message.stored_ms)}  stored in {_place(message)}"))
    for one in trace.copies:
        output.write_line(output.one_line(f"{output.time_text(one.stored_ms)}  stored again in {_place(one)}"))
    for group in trace.groups:
        output.write_line(output.one_line(f"group {group.group}: {group_text(group)}"))
        events = [
            (one.stored_ms, f"retry {one.reconsume_times or '(redriven)'}: {_place(one)}") for one in group.retries
        ]
        events += [(dead.message.stored_ms, f"dead: {dead.reason}: {dead.error or '-'}") for dead in group.dead_letters]
        for ms, text in sorted(events):
            output.write_line(output.one_line(f"  {output.time_text(ms)}  {text}"))
    if not trace.groups:
        output.write_line("no group reads the topic")


def group_text(group: GroupTrace) -> str:
    """Return how far a group came with a message."""
    at = f" (its offset is {group.committed})" if group.committed is not None else ""
    told = {
        "unread": f"has not read it yet{at}",
        "read": f"has read beyond it{at}: handled, or filtered out",
        "retry waits": f"failed; tries again at {output.time_text(group.due_ms)}",
        "retry unread": "failed; the retry is there and not read yet",
        "read after retry": "has read beyond its last retry: handled",
        "dead": "gave up: it is a dead letter",
    }
    return told[group.state]


def _row(message: Message) -> tuple[str, str, int, str, str, int, str]:
    return (
        output.time_text(message.stored_ms),
        f"{message.broker}/{message.queue_id}",
        message.queue_offset,
        message.tags or "-",
        " ".join(message.keys) or "-",
        len(message.body),
        preview(message.body),
    )


def _place(message: Message) -> str:
    return f"{message.broker}/{message.queue_id} #{message.queue_offset}"


def _pairs(message: Message) -> str:
    return ", ".join(f"{name}={value}" for name, value in message.properties.items()) or "-"
