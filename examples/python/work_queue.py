"""A work queue: workers take jobs with receipts; what they do not acknowledge comes again."""

import threading

import litemq


def resize(message: litemq.Message) -> None:
    """Do a job; one of them fails at first."""
    if message.text() == "3.png" and message.attempt == 1:
        raise OSError("the disk is full")


def work() -> None:
    """Take jobs until there are none."""
    with litemq.SimpleConsumer("resizers", {"pictures": "*"}) as consumer:
        while messages := consumer.receive(max_messages=2, invisible=30, timeout=3):
            for message in messages:
                try:
                    resize(message)
                except OSError as error:
                    print(f"{message.text()}: {error}\n", end="", flush=True)
                    consumer.change_invisible(message, 1)  # again in a second, for whoever asks then
                else:
                    consumer.ack(message)
                    print(f"{message.text()}: resized by attempt {message.attempt}\n", end="", flush=True)


with litemq.Producer() as producer:
    for number in range(1, 6):
        producer.send("pictures", b"%d.png" % number)

workers = [threading.Thread(target=work) for _ in range(2)]
for worker in workers:
    worker.start()
for worker in workers:
    worker.join()
