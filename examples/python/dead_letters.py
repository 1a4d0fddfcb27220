"""A handler that fails, the dead letter that comes of it, and how it is sent once more when the cause is mended."""

import threading
import time

import litemq

is_mended = False
booked = threading.Event()


def book(message: litemq.Message) -> None:
    """Fail until the cause is mended."""
    print(f"attempt {message.attempt} at {message.text()}", flush=True)
    if not is_mended:
        raise litemq.Retry("no such account", delay=1)
    booked.set()


with litemq.Producer() as producer:
    producer.send("payments", b"payment 17", keys="payment-17")

with litemq.PushConsumer("bookkeeping", {"payments": "*"}, book, max_attempts=2), litemq.Admin() as admin:
    while not (letters := admin.dead_letters(topic="payments")):
        time.sleep(0.1)
    for letter in letters:
        print(f"{letter.message.keys[0]} is a dead letter of {letter.group}: {letter.reason}, {letter.error}")

    is_mended = True
    redriven = admin.redrive("bookkeeping").sent
    booked.wait(60)
print("redriven and booked:", redriven)
