"""Steps of the demo that show the two engines: transactions, and consuming by receipts."""

from __future__ import annotations

from contextlib import suppress
from typing import Final

import litemq
from litemq.demo.processes import Failed
from litemq.demo.stage import Demo, read, wait

_RECEIVE_S: Final = 20


def end_transactions(demo: Demo) -> str:
    """Commit one transaction, roll another back, and forget a third, so that the broker asks."""
    database: set[str] = set()
    asked: list[str] = []

    def check(message: litemq.Message) -> litemq.Decision:
        number = message.keys[0]
        decision = litemq.COMMIT if number in database else litemq.UNKNOWN
        demo.screen.note(f"the broker asks about {number!r}; the answer: {decision.name}")
        asked.append(number)
        return decision

    def order(number: str, *, fails: bool = False, dies: bool = False) -> None:
        with producer.transaction(check_after=1) as tx:
            tx.send("parcels", number.encode(), keys=number)
            if fails:
                raise _NotStored
            database.add(number)
            if dies:
                tx.unknown()  # as if the program ended here: nobody tells the broker

    name_server = demo.up.name_server
    with (
        litemq.TransactionProducer("demo-shop", check=check, nameservers=name_server) as producer,
        litemq.Admin(name_server) as admin,
    ):
        order("committed")
        with suppress(_NotStored):
            order("rolled-back", fails=True)
        order("checked", dies=True)
        demo.screen.note("$ litemq message transactions")
        for one in admin.transactions(group="demo-shop"):
            demo.screen.note(f"  {one.message_id} for {one.topic}: {', '.join(one.keys)}, {one.state}")
        delivered = [message.text() for message in read(demo, "parcels", litemq.Tags("*"), 2)]
    if sorted(delivered) != ["checked", "committed"] or "checked" not in asked:
        raise Failed(f"delivered {delivered}, asked about {asked}")
    return "one committed, one rolled back and never seen, one delivered after the broker asked what became of it"


class _NotStored(Exception):
    """The database did not take an order."""


def share_work(demo: Demo) -> str:
    """Let two workers take messages one by one; what one of them does not acknowledge, the other gets."""
    name_server = demo.up.name_server
    names = [f"picture {number}" for number in range(6)]
    done: list[str] = []
    with (
        litemq.Producer(name_server) as producer,
        litemq.SimpleConsumer("workers", {"pictures": "*"}, nameservers=name_server) as diligent,
        litemq.SimpleConsumer("workers", {"pictures": "*"}, nameservers=name_server) as lost,
        litemq.Admin(name_server) as admin,
    ):
        producer.send_batch([litemq.Message("pictures", name.encode()) for name in names])
        demo.screen.note('consumer.receive(max_messages=2, invisible=1), then nothing: "this worker dies"')
        dropped = lost.receive(max_messages=2, invisible=1, timeout=_RECEIVE_S)
        held = admin.inflight("workers")
        demo.screen.note(f"$ litemq group inflight workers: {len(held)} messages")
        attempts: list[int] = []

        def work() -> bool:
            for message in diligent.receive(timeout=1):
                done.append(message.text())
                attempts.append(message.attempt)
                diligent.ack(message)
            return len(done) >= len(names)

        wait(work)
    if sorted(done) != names or attempts.count(2) != len(dropped) or len(held) != len(dropped):
        raise Failed(f"done: {done}, attempts: {attempts}, held: {len(held)}")
    return f"{len(names)} jobs done; {len(dropped)} of them by another worker, when their receipts were over"
