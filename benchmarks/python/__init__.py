"""The Python SDK beside redis-py, confluent-kafka, nats-py and pika: ``make bench-python``."""
