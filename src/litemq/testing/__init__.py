"""A real broker for tests: a process of its own, a directory of its own, ready in less than half a second.

>>> from litemq.testing import broker
>>> with broker() as b:
...     with litemq.Producer(b.nameservers) as producer:
...         sent = producer.send("orders", b"17 apples")
>>> sent.topic
'orders'

With pytest nothing needs to be imported: the fixtures ``litemq_broker``, ``litemq_cluster`` and ``litemq_topic`` are
there as soon as LiteMQ is installed (``litemq.testing.plugin``).
"""

from __future__ import annotations

from litemq.testing.server import Broker, broker

__all__ = ["Broker", "broker"]
