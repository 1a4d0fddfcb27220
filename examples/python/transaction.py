"""Write to a database and send a message: both happen, or neither, whoever dies in between."""

import sqlite3
import tempfile
from contextlib import closing
from pathlib import Path

import litemq

folder = tempfile.TemporaryDirectory()
path = Path(folder.name) / "shop.db"


def is_stored(number: str) -> bool:
    """Look into the database."""
    with closing(sqlite3.connect(path)) as other:
        return other.execute("SELECT 1 FROM orders WHERE number = ?", (number,)).fetchone() is not None


def check(message: litemq.Message) -> litemq.Decision:
    """Say what became of an order whose end the broker was not told."""
    print(f"the broker asks about {message.keys[0]}", flush=True)
    return litemq.COMMIT if is_stored(message.keys[0]) else litemq.UNKNOWN


def order(producer: litemq.TransactionProducer, number: str, count: int, *, dies: bool = False) -> None:
    """Store an order and tell others of it."""
    with producer.transaction(check_after=1) as tx:
        tx.send("shop-orders", b"%d apples" % count, keys=number)
        with database:  # commits here, or rolls back
            database.execute("INSERT INTO orders VALUES (?, ?)", (number, count))
        if dies:
            tx.unknown()  # as if this program ended here: nobody tells the broker


with (
    closing(sqlite3.connect(path)) as database,
    litemq.TransactionProducer("shop", check=check) as shop,
    litemq.PullConsumer() as consumer,
):
    database.execute("CREATE TABLE orders (number TEXT PRIMARY KEY, count INTEGER CHECK (count > 0))")
    order(shop, "o-1", 17)
    try:
        order(shop, "o-2", 0)
    except sqlite3.IntegrityError as error:
        print(f"o-2 is not stored: {error}", flush=True)
    order(shop, "o-3", 3, dies=True)

    consumer.subscribe("shop-orders")
    for message in consumer:
        print(f"delivered: {message.keys[0]}, {message.text()}", flush=True)
        if message.keys[0] == "o-3":
            break
folder.cleanup()
