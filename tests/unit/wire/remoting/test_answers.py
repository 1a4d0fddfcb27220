"""Rows → answers: one each, in the codec of the request, with what the store said."""

from __future__ import annotations

import pytest
from tests.support import frames
from tests.support.frames import BINARY, JSON, Send
from tests.unit.store.live_support import open_store

from litemq.format._spans_cy import Peer, Spans
from litemq.wire.remoting import command
from litemq.wire.remoting._answers_cy import Outbox, sends
from litemq.wire.remoting._requests_cy import split

CODECS = pytest.mark.parametrize("codec", [JSON, BINARY], ids=["json", "binary"])
HOST = "7F00000100002A9F"


def stored(tmp_path: object, *sent: bytes) -> Spans:
    """Split and append; every request must be plain."""
    spans = Spans()
    spans.peer = Peer("10.0.0.5:50000")
    spans.data = bytearray(b"".join(sent))
    split(spans, 0, len(spans.data))
    with open_store(tmp_path) as store:  # type: ignore[arg-type]
        store.put_topic("orders")
        store.put_plain("orders", 8)
        assert store.append_rows(spans, 0) == spans.count
    return spans


def answered(spans: Spans, code: int = 0) -> list[tuple[int, int, int, dict[str, str]]]:
    out = Outbox()
    sends(spans, 0, spans.count, out, code)
    return frames.answers(out.take())


@CODECS
@pytest.mark.parametrize("code", [0, 10])
def test_a_send(tmp_path: object, codec: int, code: int) -> None:
    spans = stored(tmp_path, frames.send(codec, 310, Send(queue_id=3), opaque=-9))
    position = spans.row(0)["POSITION"]
    expected = {
        "MSG_REGION": "DefaultRegion",
        "TRACE_ON": "true",
        "msgId": f"{HOST}{position:016X}",
        "queueId": "3",
        "queueOffset": "0",
        "transactionId": "7F0000010002",
    }
    assert answered(spans, code) == [(codec, code, -9, expected)]


@CODECS
def test_command_reads_the_answer(tmp_path: object, codec: int) -> None:
    spans = stored(tmp_path, frames.send(codec, 310, Send(), opaque=5))
    out = Outbox()
    sends(spans, 0, 1, out)
    read = command.decode(out.take())
    assert isinstance(read, command.Response)
    assert (read.code, read.opaque, read.version, read.remark, read.body) == (0, 5, 479, None, b"")
    assert read.ext["queueOffset"] == "0"


@CODECS
def test_a_batch_gets_one_answer(tmp_path: object, codec: int) -> None:
    body = b"".join(frames.entry(b"x", f"UNIQ_KEY\x01id{n}\x02") for n in range(3))
    first = frames.send(codec, 310, Send(queue_id=1))
    spans = stored(tmp_path, first, frames.send(codec, 320, Send(batch=True, body=body, queue_id=1), opaque=4))
    ids = ",".join(f"{HOST}{spans.row(row)['POSITION']:016X}" for row in (1, 2, 3))
    _, answer = answered(spans)
    assert answer[2:] == (
        4,
        {"MSG_REGION": "DefaultRegion", "TRACE_ON": "true", "msgId": ids, "queueId": "1", "queueOffset": "1"},
    )


@CODECS
def test_a_oneway_gets_none(tmp_path: object, codec: int) -> None:
    asks = [frames.send(codec, 310, Send(), opaque=n, flag=2 * (n % 2)) for n in range(4)]
    assert [opaque for _, _, opaque, _ in answered(stored(tmp_path, *asks))] == [0, 2]


@CODECS
def test_an_id_with_odd_characters(tmp_path: object, codec: int) -> None:
    text = 'a"b\\c\x1f\n/é中😀\x7f'
    spans = stored(tmp_path, frames.send(codec, 310, Send(properties=f"UNIQ_KEY\x01{text}")))
    assert answered(spans)[0][3]["transactionId"] == text


def test_many_answers_outgrow_the_box(tmp_path: object) -> None:
    asks = [frames.send(n % 2, 310, Send(), opaque=n) for n in range(40)]
    spans = stored(tmp_path, *asks)
    out = Outbox()
    for _ in range(20):
        sends(spans, 0, 40, out)
    out.add(b"\x00\x00\x00\x01x")
    size = len(out)
    data = out.take()
    assert len(data) == size > 1 << 16
    assert [opaque for _, _, opaque, _ in frames.answers(data[:-5])] == [*range(40)] * 20
    assert (out.take(), len(out)) == (b"", 0)


@pytest.mark.parametrize(("first", "last"), [(-1, 1), (0, 3), (1, 2)])
def test_only_stored_sends_are_answered(tmp_path: object, first: int, last: int) -> None:
    spans = stored(tmp_path, frames.send(JSON, 310, Send()))
    spans.data = bytearray(frames.send(JSON, 310, Send()) * 2)
    split(spans, 0, len(spans.data))
    out = Outbox()
    with pytest.raises(ValueError, match="row"):
        sends(spans, first, last, out)
    assert out.take() == b""
