"""Send ten orders, each answered before the next is sent.

litemq up                # in another terminal
python produce.py
"""

import json

import litemq

STATES = ("created", "paid", "shipped")

with litemq.Producer() as producer:
    for number in range(10):
        order = json.dumps({"number": number, "amount": number * 10}).encode()
        sent = producer.send(
            "orders",
            order,
            tags=STATES[number % 3],  # what consumers choose by
            keys=f"order-{number}",  # litemq message query orders --key order-3
            properties={"region": "eu" if number % 2 else "us"},
        )
        print(f"sent order {number}: {sent.broker}, queue {sent.queue_id}, offset {sent.queue_offset}")
