"""Consume orders that were paid or shipped, until Ctrl-C; start it twice, and the two share the work.

python produce.py
python consume.py
"""

import logging
import sys

import litemq

logger = logging.getLogger("billing")


def handle(message: litemq.Message) -> None:
    """Called in one of 16 threads; what raises comes again later."""
    order = message.json()
    region = message.properties["region"]
    logger.info("order %d, %s: %d from %s", order["number"], message.tags, order["amount"], region)


logging.basicConfig(format="%(message)s", stream=sys.stdout)
logger.setLevel(logging.INFO)
with litemq.PushConsumer("billing", {"orders": "paid || shipped"}, handle) as consumer:
    logger.info("consuming; Ctrl-C ends it")
    consumer.wait()
logger.info("done")
