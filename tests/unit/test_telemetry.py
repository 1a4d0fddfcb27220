"""Traces go from the sender to the handler, with the real OpenTelemetry."""

from __future__ import annotations

import asyncio

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind

import litemq
from litemq.telemetry import OpenTelemetryHooks
from litemq.testing import broker


@pytest.fixture
def spans() -> InMemorySpanExporter:
    return InMemorySpanExporter()


@pytest.fixture
def hooks(spans: InMemorySpanExporter) -> OpenTelemetryHooks:
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(spans))
    return OpenTelemetryHooks(provider.get_tracer("test"))


def test_a_trace_goes_through_the_broker(spans: InMemorySpanExporter, hooks: OpenTelemetryHooks) -> None:
    with broker() as server:
        with litemq.Producer(server.nameservers, hooks=hooks) as producer:
            producer.send("orders", b"one", properties={"region": "eu"})
            producer.send_batch([litemq.Message("orders", b"two"), litemq.Message("orders", b"three")])
        received: list[litemq.Message] = []
        with litemq.PullConsumer(nameservers=server.nameservers) as consumer:
            consumer.subscribe("orders")
            while len(received) < 3:
                received += consumer.poll(timeout=5)
    one, *batch = sorted(received, key=lambda message: message.body != b"one")
    assert one.properties["region"] == "eu"
    seen = []
    hooks.handler(lambda message: seen.append(message.body))(one)
    assert seen == [b"one"]
    hooks.handler(lambda messages: seen.extend(messages))(batch)
    sent, sent_batch, handled, handled_batch = spans.get_finished_spans()
    assert sent.kind is SpanKind.PRODUCER
    assert (sent.name, handled.name) == ("send orders", "process orders")
    assert handled.parent is not None
    assert handled.parent.span_id == sent.context.span_id
    assert handled.context.trace_id == sent.context.trace_id
    assert sent_batch.attributes is not None
    assert sent_batch.attributes["messaging.batch.message_count"] == "2"
    assert {link.context.span_id for link in handled_batch.links} == {sent_batch.context.span_id}


def test_errors_end_spans_and_go_on(spans: InMemorySpanExporter, hooks: OpenTelemetryHooks) -> None:
    async def handle(_message: litemq.Message) -> None:
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        asyncio.run(hooks.handler(handle)(litemq.Message("orders", b"")))
    (span,) = spans.get_finished_spans()
    assert not span.status.is_ok
    with pytest.raises(litemq.InvalidRequest), litemq.Producer("127.0.0.1:1", hooks=hooks) as producer:
        producer.send("no spaces", b"")
