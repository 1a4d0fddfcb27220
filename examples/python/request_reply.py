"""Ask a service through the broker, and wait for its answer."""

import litemq


def serve(message: litemq.Message) -> None:
    """Answer a question."""
    numbers = message.json()
    consumer.reply(message, str(sum(numbers)).encode())


with litemq.Admin() as admin:
    admin.create_topic("sums", exist_ok=True)  # the consumer is there before the first message would make it

with (
    litemq.PushConsumer("calculators", {"sums": "*"}, serve) as consumer,
    litemq.Producer() as producer,
):
    for numbers in ([1, 2, 3], [40, 2]):
        answer = producer.request(litemq.Message("sums", str(numbers).encode()), timeout=30)
        print(f"the sum of {numbers} is {answer.text()}")
