"""The outbox: messages that are written into a database, in its own transactions, and published in their commit order.

The application adds rows to a table, in the same transaction as everything else that it stores; a relay publishes
them.  So a message is published when, and only when, its transaction has committed, whoever dies in between; and no
request to a broker delays or fails a transaction.  Needs SQLAlchemy: ``pip install 'litemq[outbox]'``.

>>> import sqlalchemy, tempfile
>>> from litemq.outbox import Outbox, OutboxRelay
>>> folder = tempfile.TemporaryDirectory()
>>> engine = sqlalchemy.create_engine(f"sqlite:///{folder.name}/shop.db")
>>> outbox = Outbox(engine)
>>> outbox.create()
>>> with engine.begin() as connection:  # or a Session
...     outbox_id = outbox.add(connection, "orders", b"17 apples", keys="o-17", sharding_key="c-3")
>>> with OutboxRelay(engine) as relay:
...     relay.run_once()  # relay.run() goes on until relay.stop()
1
>>> engine.dispose()
>>> folder.cleanup()
"""

from __future__ import annotations

from litemq.outbox.relay import OutboxCounters, OutboxRelay
from litemq.outbox.rows import OUTBOX_ID
from litemq.outbox.table import Outbox

__all__ = ["OUTBOX_ID", "Outbox", "OutboxCounters", "OutboxRelay"]
