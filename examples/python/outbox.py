"""Write orders and messages into a database; a relay publishes the messages in the order of the commits."""

import tempfile
from pathlib import Path

from sqlalchemy import create_engine
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column

import litemq
from litemq.outbox import Outbox, OutboxRelay


class Base(DeclarativeBase):
    """The application's tables."""


class Order(Base):
    """One of them."""

    __tablename__ = "orders"
    number: Mapped[str] = mapped_column(primary_key=True)
    count: Mapped[int]


outbox = Outbox(Base.metadata)
folder = tempfile.TemporaryDirectory()
engine = create_engine(f"sqlite:///{Path(folder.name) / 'shop.db'}")
Base.metadata.create_all(engine)

with Session(engine) as session:
    for number, count in (("o-1", 17), ("o-2", 0), ("o-3", 3)):
        session.add(Order(number=number, count=count))
        outbox.add(session, "outbox-orders", b"%d apples" % count, keys=number, sharding_key="customer-3")
        if count:
            session.commit()
        else:
            session.rollback()  # the row goes with the order
            print(f"{number} is not stored", flush=True)

with OutboxRelay(engine) as relay:  # as a rule in a process of its own: relay.run()
    print(f"published: {relay.run_once()}", flush=True)

with litemq.PullConsumer() as consumer:
    consumer.subscribe("outbox-orders")
    for message in consumer:
        print(f"delivered: {message.keys[0]}, {message.text()}", flush=True)
        if message.keys[0] == "o-3":
            break
engine.dispose()
folder.cleanup()
