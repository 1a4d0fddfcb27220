"""Benchmarks of the running broker: beside RocketMQ, Redis and NATS in the same run, and beside itself."""
