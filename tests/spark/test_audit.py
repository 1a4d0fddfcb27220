"""The audit over real stores and brokers: sound ones are clean, and each planted fault is found and named."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from tests.support.store_files import T0, StoreFiles

import litemq
from litemq.cli.pipeline_frame import write_report
from litemq.client.live_reads import LiveReader
from litemq.format.names import PROGRESS_TOPIC, STATS_TOPIC
from litemq.format.stats_records import HOUR_MS, encode_counts, encode_incomplete
from litemq.spark.jobs.audit import Audit
from litemq.spark.jobs.job import Report, Run, Source
from litemq.testing import Broker, broker
from litemq.types import Message

pytestmark = [pytest.mark.spark, pytest.mark.filterwarnings("ignore")]

HOUR = T0 - T0 % HOUR_MS


def audit(spark: Any, place: Path | Broker, *topics: str, **options: str) -> Report:  # noqa: ANN401 - Spark's session
    source = Source("", place.nameservers, options) if isinstance(place, Broker) else Source(str(place), "", options)
    return Audit(source, topics).run(Run(spark))


def table(report: Report, name: str) -> list[dict[str, Any]]:
    return report.tables[name].to_json()


def kinds(report: Report) -> list[str]:
    return [str(row["kind"]) for row in table(report, "findings")]


# -- planted faults ------------------------------------------------------------------------------


def built(root: Path, *, doubled: int = -1, same_place: bool = False, missing: tuple[int, ...] = ()) -> Path:
    """Write a store of two queues of ``orders``, what was sent, and how far ``billing`` is."""
    store = StoreFiles(root, segment_size=1 << 16)
    for number in range(20):
        for _ in range(2 if number == doubled else 1):
            message = Message("orders", b"x", queue_id=number % 2, message_id=f"id-{number}")
            if number in missing:  # it has its offset, and is not there
                store.next_offsets["orders", number % 2] = store.next_offsets.get(("orders", number % 2), 0) + 1
            else:
                store.add(message)
    if same_place:
        store.add(Message("orders", b"x", message_id="another"), queue_offset=2)
    body = {"op": "progress", "offsets": {"billing": {"orders": {"0": 5, "1": 4}}}}
    store.add(Message(PROGRESS_TOPIC, json.dumps(body).encode()), store_time=T0 + 5_000)
    for counts in encode_counts(HOUR, {"sent": {"orders": {"shop": 20}}}, 1 << 20):
        store.add(Message(STATS_TOPIC, counts), store_time=T0 + 5_000)
    store.write()
    (root / "config").mkdir()
    (root / "config" / "consumerOffset.json").write_text('{"offsetTable": {"orders@billing": {0: 5, 1: 4}}}')
    return root


def test_a_sound_store_is_clean(spark: Any, tmp_path: Path) -> None:  # noqa: ANN401
    report = audit(spark, built(tmp_path))
    assert (report.status, table(report, "findings")) == ("done", [])
    assert table(report, "hours") == [
        {"topic": "orders", "broker": None, "hour": "2023-11-14T22:00Z", "sent": 20, "stored": 20, "state": "whole"}
    ]
    assert table(report, "producers") == [{"topic": "orders", "producer_group": "shop", "sent": 20}]
    assert table(report, "groups") == [
        {"group": "billing", "topic": "orders", "stored": 20, "consumed": 9, "pending": 11, "dead": 0, "difference": 0}
    ]
    (waited,) = table(report, "latency")
    assert (waited["group"], waited["messages"], waited["max_ms"]) == ("billing", 9, 5_000)
    assert 4_980 < waited["p50_ms"] <= 5_000


def test_records_that_are_gone(spark: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:  # noqa: ANN401
    report = audit(spark, built(tmp_path, missing=(6, 8, 9)))
    assert report.status == "findings"
    assert kinds(report) == ["gap", "gap", "lost", "unbalanced"]
    one, other, lost, unbalanced = table(report, "findings")
    assert (one["queue_id"], one["count"], other["queue_id"], other["count"]) == (0, 2, 1, 1)
    assert one["detail"].startswith("offsets 3 to 4 lead to no message")
    assert (lost["topic"], lost["count"]) == ("orders", 3)
    assert (unbalanced["group"], unbalanced["count"]) == ("billing", 3)
    write_report(report, as_json=True)
    told = json.loads(capsys.readouterr().out)
    assert (told["job"], told["status"], told["figures"]["findings"]) == ("audit", "findings", 4)
    assert told["findings"] == table(report, "findings")


def test_messages_that_are_stored_twice(spark: Any, tmp_path: Path) -> None:  # noqa: ANN401
    """One at two places, and two at one place."""
    report = audit(spark, built(tmp_path, doubled=7, same_place=True))
    assert kinds(report) == ["double-id", "double-offset", "unbalanced", "uncounted"]
    double, place, _, uncounted = table(report, "findings")
    said = "message id-7 is stored 2 times, at 1 offset 3 and 1 offset 4; 1 ids with 1 extra copies in the topic"
    assert double["detail"] == said
    assert (place["queue_id"], place["detail"]) == (0, "offset 2 is there twice; 1 doubles in the queue")
    assert uncounted["count"] == 2


def test_a_lost_tail(spark: Any, tmp_path: Path) -> None:  # noqa: ANN401
    built(tmp_path)
    log = tmp_path / "commitlog" / f"{0:020d}"
    entry = (tmp_path / "consumequeue" / "orders" / "1" / f"{0:020d}").read_bytes()
    at = int.from_bytes(entry[8 * 24 : 8 * 24 + 8])  # of offset 8 in queue 1: nothing behind it is left
    log.write_bytes(log.read_bytes()[:at].ljust(1 << 16, b"\0"))
    report = audit(spark, tmp_path)
    assert kinds(report).count("tail") == 2
    assert [row["detail"] for row in table(report, "findings") if row["kind"] == "tail"] == [
        "offset 9, the last of the queue, leads to no message",
        "offsets 8 to 9, the last of the queue, lead to no message",
    ]


def test_progress_above_the_end_and_dead_letters(spark: Any, tmp_path: Path) -> None:  # noqa: ANN401
    store = StoreFiles(tmp_path, segment_size=1 << 16)
    for number in range(6):
        store.add(Message("orders", b"x", message_id=f"id-{number}"))
    for offset in (1, 1, 4, -1):  # one died twice, one that nobody confirmed yet, one that never got in
        died = {"DLQ_GROUP": "billing", "DLQ_ORIGIN_TOPIC": "orders", "DLQ_ORIGIN_QUEUE": "0"}
        store.add(Message("%DLQ%billing", b"x", properties={**died, "DLQ_ORIGIN_OFFSET": str(offset)}))
    store.write()
    (tmp_path / "config").mkdir()
    table_of = {"orders@billing": {"0": 3}, "orders@stock": {"0": 9}, "gone@stock": {"0": 1}}
    (tmp_path / "config" / "consumerOffset.json").write_text(json.dumps({"offsetTable": table_of}))
    report = audit(spark, tmp_path)
    assert [(row["kind"], row["group"], row["queue_id"], row["count"]) for row in table(report, "findings")] == [
        ("ahead", "stock", 0, 3)
    ]
    assert [tuple(row.values()) for row in table(report, "groups")] == [
        ("billing", "orders", 6, 2, 2, 2, 0),
        ("stock", "orders", 6, 6, 0, 0, 0),
    ]
    assert any(note.startswith("Nothing counts sends here") for note in report.notes)


def test_hours_of_which_not_everything_is_known(spark: Any, tmp_path: Path) -> None:  # noqa: ANN401
    """Sends that nobody counted are no finding in an hour with an unclean stop, lost ones are."""
    store = StoreFiles(tmp_path, segment_size=1 << 16)
    for hour in range(3):
        for number in range(4):
            store.add(Message("orders", b"x", message_id=f"{hour}-{number}"), store_time=HOUR + hour * HOUR_MS + number)
    for hour, sent in ((0, 4), (1, 3), (2, 5)):
        for body in encode_counts(HOUR + hour * HOUR_MS, {"sent": {"orders": {"shop": sent}}}, 1 << 20):
            store.add(Message(STATS_TOPIC, body), store_time=HOUR + 3 * HOUR_MS)
    since = HOUR + HOUR_MS + 5
    store.add(Message(STATS_TOPIC, encode_incomplete(since, since + HOUR_MS, "x")), store_time=HOUR + 3 * HOUR_MS)
    store.write()
    report = audit(spark, tmp_path)
    assert [(row["sent"], row["stored"], row["state"]) for row in table(report, "hours")] == [
        (4, 4, "whole"),
        (3, 4, "incomplete"),
        (5, 4, "lost"),
    ]
    assert kinds(report) == ["lost"]
    first = audit(spark, tmp_path, startingTimestamp=str(HOUR), endingTimestamp=str(HOUR + 2 * HOUR_MS))
    assert (first.status, [row["state"] for row in table(first, "hours")]) == (
        "done",
        ["whole", "incomplete"],
    )


def test_what_retention_took_is_no_loss(spark: Any, tmp_path: Path) -> None:  # noqa: ANN401
    store = StoreFiles(tmp_path, segment_size=1 << 12)
    for hour in range(3):
        for number in range(40):
            store.add(Message("orders", b"x", message_id=f"{hour}-{number}"), store_time=HOUR + hour * HOUR_MS + number)
    for body in (
        encode_counts(HOUR + hour * HOUR_MS, {"sent": {"orders": {"shop": 40}}}, 1 << 20) for hour in range(3)
    ):
        store.add(Message(STATS_TOPIC, next(body)), store_time=HOUR + 3 * HOUR_MS)
    store.write()
    (tmp_path / "config").mkdir()
    (tmp_path / "config" / "consumerOffset.json").write_text('{"offsetTable": {"orders@slow": {"0": 1}}}')
    (tmp_path / "commitlog" / f"{0:020d}").unlink()
    report = audit(spark, tmp_path)
    assert (report.status, table(report, "findings")) == ("done", [])
    first, *others = table(report, "hours")
    assert (first["sent"], first["stored"] < 40, first["state"]) == (40, True, "partly gone")
    assert [(row["sent"], row["stored"], row["state"]) for row in others] == [(40, 40, "whole")] * 2


# -- a broker ------------------------------------------------------------------------------------


def work(at: Broker) -> None:
    """Send and consume in every way that there is."""
    servers = at.nameservers
    with litemq.Admin(servers) as admin:
        for topic in ("orders", "jobs", "bills", "rows", "again", "swept"):
            admin.create_topic(topic, queues=2)
        with litemq.Producer(servers, group="shop") as producer:
            for number in range(40):
                for topic in ("orders", "jobs", "again", "swept"):
                    producer.send(topic, b"%d" % number)
            producer.send_batch([litemq.Message("orders", b"in a batch") for _ in range(5)])
        with litemq.TransactionProducer("payer", check=lambda _: litemq.COMMIT, nameservers=servers) as payer:
            for number in range(4):
                decision = litemq.COMMIT if number else litemq.ROLLBACK
                payer.send_in_transaction(litemq.Message("bills", b"x"), partial(decided, decision))
        with litemq.BatchTransactions(servers) as batches:
            batches.commit("job", 0, [batches.stage("job", 0, 0, 1, [litemq.Message("rows", b"x")] * 30)])
        admin.delete_topic("again")
        admin.create_topic("again", queues=1)
        admin.purge_topic("swept")
        with litemq.Producer(servers, group="shop") as producer:
            producer.send("again", b"anew")
    consume(servers)
    counted(at)


def decided(decision: litemq.Decision, _message: litemq.Message) -> litemq.Decision:
    return decision


def counted(at: Broker) -> None:
    """Return when everything that was sent before is in a record of counts."""
    with LiveReader(at.nameservers) as reader, litemq.Producer(at.nameservers, group="last") as producer:

        def records() -> int:
            return sum(
                queue.max_offset for one in reader.bounds([STATS_TOPIC]) for t in one.topics for queue in t.queues
            )

        for _ in range(2):
            before = records()
            producer.send("orders", b"last")
            deadline = time.monotonic() + 60
            while records() == before:
                assert time.monotonic() < deadline
                time.sleep(0.05)


def consume(servers: str) -> None:
    seen = threading.Semaphore(0)

    def handle(message: litemq.Message) -> None:
        seen.release()
        if message.body == b"3":
            raise litemq.Reject("no")
        if message.body == b"4" and message.attempt == 1:
            raise RuntimeError("again")

    with litemq.PushConsumer("billing", {"orders": "*"}, handle, nameservers=servers):
        for _ in range(45):
            assert seen.acquire(timeout=60)
    with litemq.SimpleConsumer("workers", {"jobs": "*"}, nameservers=servers) as consumer:
        done = 0
        while done < 30:
            for message in consumer.receive(max_messages=8, invisible=60, timeout=20):
                if message.body == b"5" and message.attempt == 1:
                    consumer.change_invisible(message, 0)
                elif done < 30:
                    consumer.ack(message)
                    done += 1


def test_a_broker_that_did_everything_is_clean(spark: Any) -> None:  # noqa: ANN401
    with broker() as at:
        work(at)
        stop = threading.Event()

        def send_on() -> None:
            with litemq.Producer(at.nameservers, group="on") as producer:
                while not stop.is_set():
                    producer.send("orders", b"on")

        thread = threading.Thread(target=send_on)
        thread.start()
        try:
            live = audit(spark, at)
        finally:
            stop.set()
            thread.join()
        assert (live.status, table(live, "findings")) == ("done", [])
        at.stop()
        files = audit(spark, at.data)
    assert (files.status, table(files, "findings")) == ("done", [])
    for report in (live, files):
        states = {row["topic"]: row["state"] for row in table(report, "hours")}
        assert states["orders"] == states["bills"] == states["rows"] == "whole"
        groups = {(row["group"], row["topic"]): row for row in table(report, "groups")}
        assert groups["billing", "orders"]["dead"] == 1
    sent = {(row["topic"], row["producer_group"]): row["sent"] for row in table(files, "producers")}
    assert (sent["bills", "payer"], sent["rows", "job"], sent["orders", "shop"]) == (3, 30, 45)
    assert {row["group"] for row in table(files, "latency")} >= {"billing", "workers"}


def test_a_broker_that_was_killed_says_so(spark: Any) -> None:  # noqa: ANN401
    with broker() as at:
        with litemq.Producer(at.nameservers) as producer:
            for number in range(50):
                producer.send("orders", b"%d" % number)
        at.kill()
        at.restart()
        report = audit(spark, at)
    assert (report.status, report.figures["incomplete_hours"]) == ("done", 1)
    (hour,) = table(report, "hours")
    assert (hour["stored"] >= hour["sent"], hour["state"]) == (True, "incomplete")


def test_the_command(tmp_path: Path) -> None:
    """Its tables, its JSON, its report, and its exit status."""
    built(tmp_path / "store", missing=(6,))
    report = tmp_path / "report.json"
    command = [sys.executable, "-m", "litemq", "pipeline", "audit", "--path", str(tmp_path / "store")]
    done = subprocess.run([*command, "--report", str(report)], capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 1, done.stderr
    assert "what does not add up" in done.stdout
    assert "offset 3 leads to no message" in done.stdout
    assert json.loads(report.read_text())["findings"][0]["kind"] == "gap"
