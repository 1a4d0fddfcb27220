"""``litemq message``: send, follow, find and trace messages."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Final

import click

from litemq.cli import output
from litemq.cli.connecting import JSON_LINES, JSON_OBJECT, NAMESERVERS, parse_pairs
from litemq.cli.since import WHEN, parse_when
from litemq.cli.under_way import transactions

if TYPE_CHECKING:
    from litemq.client._message_cy import Message

_TOPIC = click.argument("topic")
_ID = click.argument("message_id", metavar="ID")
_IN_TOPIC = click.option("--topic", help="The topic it is in; else all are searched.")
_FIRST, _LAST = "first", "last"
_SHOWN: Final = 10


@click.group()
def message() -> None:
    """Send, follow, find and trace messages; see transactions."""


message.add_command(transactions)


@message.command()
@_TOPIC
@click.argument("body", required=False)
@click.option("--file", "-f", metavar="FILE", help="Take the body from a file; - is stdin.")
@click.option("--lines", is_flag=True, help="One message a line; empty lines are none.")
@click.option("--tag", help="One word that consumers filter by.")
@click.option("--key", "keys", multiple=True, help="A word by which it is found again; may be given several times.")
@click.option("--property", "-p", "properties", multiple=True, metavar="NAME=VALUE", help="A property.")
@click.option("--sharding-key", help="Messages with the same go to the same queue, in order.")
@click.option("--count", type=click.IntRange(min=1), default=1, show_default=True, help="Send it so many times.")
@click.option("--batch", type=click.IntRange(min=1), default=1, metavar="N", help="Send N messages in one request.")
@NAMESERVERS
@JSON_LINES
def send(
    *,
    topic: str,
    body: str | None,
    file: str | None,
    lines: bool,
    tag: str | None,
    keys: tuple[str, ...],
    properties: tuple[str, ...],
    sharding_key: str | None,
    count: int,
    batch: int,
    nameservers: str,
    as_json: bool,
) -> int:
    """Send messages to TOPIC: BODY, or what a file or stdin holds.

    \b
    litemq message send orders '{"id": 17}' --tag paid --key o-17
    cat orders.jsonl | litemq message send orders --lines
    """
    if body is not None and file is not None:
        raise click.UsageError("give the body either as an argument or with --file")
    from litemq.cli.counting import counted
    from litemq.cli.message_send import Letter, bodies_of, is_typed, send_all
    from litemq.cli.message_text import sent_json
    from litemq.client.producer import Producer

    letter = Letter(
        topic=topic,
        tags=tag,
        keys=keys,
        properties=parse_pairs(properties, "--property"),
        sharding_key=sharding_key,
    )
    messages = (letter.with_body(one) for one in bodies_of(body, file, lines=lines) for _ in range(count))
    done, last = 0, None
    bar = counted("send", is_typed=is_typed(body, file))
    with Producer(nameservers, group="LITEMQ_CLI") as producer, bar as told:
        for last in send_all(producer, messages, batch=batch):
            done += 1
            if told is not None:
                told(done, 0 if lines else count)
            if as_json:
                output.write_json(sent_json(last))
    if as_json:
        return 0
    if done == 1 and last is not None:
        output.write_line(
            output.one_line(f"{last.message_id} is in {topic}: {last.broker}/{last.queue_id} #{last.queue_offset}")
        )
    else:
        output.write_line(output.one_line(f"{done} messages sent to {topic}"))
    return 0


@message.command()
@_TOPIC
@click.option("--filter", "tags", metavar="TAGS", help="Only these tags: 'paid || refunded'.")
@click.option("--sql", metavar="EXPRESSION", help="Only messages whose properties satisfy it: 'amount > 100'.")
@click.option(
    "--from",
    "start",
    metavar="first|last|TIME",
    help=f"Begin at the first message, behind the last, or at a time: {WHEN}.",
)
@click.option("--count", "-n", type=click.IntRange(min=1), metavar="N", help="End after N messages.")
@click.option("--follow", "-f", is_flag=True, help="Go on with what comes, until Ctrl-C.")
@NAMESERVERS
@JSON_LINES
def tail(
    *,
    topic: str,
    tags: str | None,
    sql: str | None,
    start: str | None,
    count: int | None,
    follow: bool,
    nameservers: str,
    as_json: bool,
) -> int:
    """Show messages of TOPIC as they come; without --from the last ten that are there.

    No group is needed, nothing is committed.
    """
    if tags is not None and sql is not None:
        raise click.UsageError("give either --filter or --sql")
    begin = start if start in (None, _FIRST, _LAST) else parse_when(start)
    from itertools import islice

    from litemq.cli.asking import asking
    from litemq.cli.tail import Filter, following, newest, since

    wanted = Filter(sql, "SQL92") if sql is not None else Filter(tags if tags is not None else "*")
    with asking(nameservers) as ask:
        if begin is None:
            found, places = newest(ask, topic, wanted, count or _SHOWN)
            for one in found:
                _show(one, as_json=as_json)
            left = None
        else:
            places, left = since(ask, topic, begin), count
        output.flush()
        if begin is None and not follow:
            return 0
        for one in islice(following(ask, topic, places, wanted, is_endless=follow or begin == _LAST), left):
            _show(one, as_json=as_json)
            output.flush()
    return 0


@message.command()
@_ID
@_IN_TOPIC
@click.option("--body", "body_only", is_flag=True, help="Write the body as it is, and nothing else.")
@NAMESERVERS
@JSON_OBJECT
def get(*, message_id: str, topic: str | None, body_only: bool, nameservers: str, as_json: bool) -> int:
    """Show one message by its id, the sender's or the offset id."""
    from litemq.cli.connecting import connected
    from litemq.cli.message_text import message_json, write_message

    with connected(nameservers) as admin:
        found = admin.message(message_id, topic=topic)
    if body_only:
        sys.stdout.buffer.write(found.body)
    elif as_json:
        output.write_json(message_json(found))
    else:
        write_message(found)
    return 0


@message.command()
@_TOPIC
@click.option("--key", help="Those with this key.")
@click.option("--id", "message_id", metavar="ID", help="Those with this id: a message that was sent twice has two.")
@click.option("--begin", metavar="TIME", help=f"Stored then or later: {WHEN}.")
@click.option("--end", metavar="TIME", help="Stored until then.")
@click.option("--count", "-n", type=click.IntRange(min=1), default=64, show_default=True, help="At most so many.")
@NAMESERVERS
@JSON_LINES
def query(
    *,
    topic: str,
    key: str | None,
    message_id: str | None,
    begin: str | None,
    end: str | None,
    count: int,
    nameservers: str,
    as_json: bool,
) -> int:
    """Find messages of TOPIC by key, id or time."""
    if key is not None and message_id is not None:
        raise click.UsageError("give either --key or --id")
    if key is None and message_id is None and begin is None and end is None:
        raise click.UsageError("say what to look for: --key, --id, or --begin and --end")
    begin_ms, end_ms = parse_when(begin), parse_when(end)
    from litemq.cli.message_text import message_json, write_messages

    found = _found(nameservers, topic, key, message_id, begin_ms, end_ms, count)
    if as_json:
        for one in found:
            output.write_json(message_json(one))
    elif found:
        write_messages(found)
    else:
        output.write_line(output.one_line(f"no message of {topic} is so"))
    return 0


def _found(
    nameservers: str,
    topic: str,
    key: str | None,
    message_id: str | None,
    begin_ms: int | None,
    end_ms: int | None,
    count: int,
) -> list[Message]:
    from litemq.cli.asking import asking
    from litemq.client.lookups import or_latest
    from litemq.client.running import run

    with asking(nameservers) as ask:
        if message_id is None:
            return run(ask.query(topic, key=key, begin=begin_ms, end=end_ms, max_messages=count))
        run(ask.lookups.queues(topic))
        return run(
            ask.lookups.by_key(
                topic, message_id, is_id=True, begin_ms=begin_ms or 0, end_ms=or_latest(end_ms), limit=count
            )
        )


@message.command()
@_ID
@_IN_TOPIC
@NAMESERVERS
@JSON_OBJECT
def trace(*, message_id: str, topic: str | None, nameservers: str, as_json: bool) -> int:
    """Show what the log knows of a message: where it is, who has read beyond it, its retries, its death."""
    from litemq.cli.connecting import connected
    from litemq.cli.message_text import trace_json, write_trace

    with connected(nameservers) as admin:
        found = admin.trace(message_id, topic=topic)
    if as_json:
        output.write_json(trace_json(found))
    else:
        write_trace(found)
    return 0


def _show(one: Message, *, as_json: bool) -> None:
    from litemq.cli.message_text import message_json, message_line

    if as_json:
        output.write_json(message_json(one))
    else:
        output.write_line(message_line(one))
