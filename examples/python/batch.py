"""Many messages quickly: a stream that batches itself, and a list in one request."""

import time

import litemq

COUNT = 20_000

with litemq.Producer() as producer:
    began = time.perf_counter()
    futures = [producer.send_async("clicks", b"click %d" % number) for number in range(COUNT)]
    producer.flush()  # raises when one of them failed
    seconds = time.perf_counter() - began
    print(f"{COUNT} messages in {seconds:.2f} s; the first is in queue {futures[0].result().queue_id}")

    invoices = [litemq.Message("invoices", b"invoice %d" % number) for number in range(100)]
    sent = producer.send_batch(invoices)
    print(f"{len(sent)} invoices in queue {sent[0].queue_id}, from offset {sent[0].queue_offset} on")
