"""Each customer's messages in order, different customers side by side."""

import threading

import litemq

STEPS = ("created", "paid", "packed", "shipped")
CUSTOMERS = [f"customer-{number}" for number in range(5)]

seen: dict[str, list[str]] = {customer: [] for customer in CUSTOMERS}
all_seen = threading.Event()


def handle(message: litemq.Message) -> None:
    """Called for one message of a queue at a time."""
    assert message.sharding_key is not None
    seen[message.sharding_key].append(message.text())
    if sum(map(len, seen.values())) == len(STEPS) * len(CUSTOMERS):
        all_seen.set()


with litemq.Producer() as producer:
    for step in STEPS:
        for customer in CUSTOMERS:
            producer.send("steps", step.encode(), sharding_key=customer)

with litemq.PushConsumer("warehouse", {"steps": "*"}, handle, ordered=True):
    all_seen.wait(60)

for customer, steps in seen.items():
    print(customer, *steps)
