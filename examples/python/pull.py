"""Read a topic at your own pace: poll, commit, and go back to the start."""

import itertools

import litemq

with litemq.Producer() as producer:
    for number in range(5):
        producer.send("readings", b"%d degrees" % (20 + number), properties={"degrees": str(20 + number)})

with litemq.PullConsumer("thermometer") as consumer:
    consumer.subscribe("readings", litemq.Sql("degrees > 21"))
    found: list[litemq.Message] = []
    while len(found) < 3:
        found += consumer.poll(max_messages=10, timeout=1.0)
        consumer.commit()  # the group goes on behind these, whoever reads next
    print("first time:", *sorted(message.text() for message in found))

    consumer.seek("readings", to="first")
    for message in itertools.islice(consumer, 3):
        print("again:", message.text())
