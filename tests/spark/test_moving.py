"""A real Spark over a running broker: exports, imports and replays, each row once whatever stops them."""

from __future__ import annotations

import itertools
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.support.dead_letters import Death
from tests.unit.client.test_several_brokers import second_broker

import litemq
from litemq.cli.pipeline_frame import write_report
from litemq.errors import InvalidRequest, UnknownTopic
from litemq.spark.files import FileBackend
from litemq.spark.jobs.dlq import DeadLetterReport
from litemq.spark.jobs.export import Export
from litemq.spark.jobs.import_ import Import
from litemq.spark.jobs.job import Cell, Report, Run, Source
from litemq.spark.jobs.replay import Replay
from litemq.testing import Broker, broker

pytestmark = [pytest.mark.spark, pytest.mark.filterwarnings("ignore")]

ROWS = Path(__file__).resolve().parents[2] / "docs" / "reference" / "pipeline-rows.md"
_numbers = itertools.count(1)
Facts = tuple[bytes, tuple[str, ...], str | None, dict[str, str], str | None]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    with broker() as first, second_broker(first, tmp_path_factory.mktemp("second")):
        yield first


@pytest.fixture
def make(cluster: Broker) -> Callable[[], str]:
    """Make topics on both brokers."""

    def made() -> str:
        name = f"moved-{next(_numbers)}"
        with litemq.Admin(cluster.nameservers) as admin:
            admin.create_topic(name, queues=4)
        return name

    return made


def odd_messages(topic: str, count: int) -> list[litemq.Message]:
    return [
        litemq.Message(
            topic,
            bytes([number % 256, 0, 255]) + b'\r\n",' + str(number).encode(),
            keys=[f"k{number}", 'q"é'],
            tags="even" if number % 2 == 0 else None,
            properties={"n": str(number), 'odd "é\n': "a,b\r\x00"},
            sharding_key=f"s{number % 3}" if number % 4 else None,
        )
        for number in range(count)
    ]


def fill(cluster: Broker, topic: str, count: int) -> Counter[str]:
    some = odd_messages(topic, count)
    with litemq.BatchTransactions(cluster.nameservers) as batches:
        name = f"fill-{topic}-{next(_numbers)}"
        batches.commit(name, 0, [batches.stage(name, 0, 0, 1, some)])
    published(cluster)
    return Counter(repr(facts(one)) for one in some)


def facts(message: Any, but: str = "") -> Facts:  # noqa: ANN401 - a message, of either side
    properties = {name: value for name, value in sorted(message.properties.items()) if name != but}
    return message.body, message.keys, message.tags, properties, message.sharding_key


def published(cluster: Broker) -> None:
    """Wait until all committed rows are in their topics."""
    deadline = time.monotonic() + 60
    with litemq.Admin(cluster.nameservers) as admin:
        while any(one.unpublished for one in admin.batch_transactions()):
            assert time.monotonic() < deadline
            time.sleep(0.02)


def messages_of(cluster: Broker, topic: str) -> list[litemq.Message]:
    published(cluster)
    with litemq.Admin(cluster.nameservers) as admin:
        queues = [one for one in admin.topic(topic).queue_infos if one.end > one.first]
    wanted = sum(one.end - one.first for one in queues)
    found: list[litemq.Message] = []
    with litemq.PullConsumer(nameservers=cluster.nameservers) as consumer:
        consumer.assign([litemq.TopicQueue(topic, one.broker, one.queue_id) for one in queues])
        deadline = time.monotonic() + 30
        while len(found) < wanted and time.monotonic() < deadline:
            found += consumer.poll(max_messages=1000)
    return found


def store_of(cluster: Broker, topic: str) -> str:
    """Return the first broker's store, once a topic's messages are on its disk."""
    store = cluster.data / "broker-a"
    path = str(store if store.is_dir() else cluster.data)
    with litemq.Admin(cluster.nameservers) as admin:
        infos = admin.topic(topic).queue_infos if topic else ()
    wanted = {(topic, one.queue_id): one.end for one in infos if one.broker == "broker-a"}
    deadline = time.monotonic() + 30
    while (
        not wanted.items()
        <= {(one.topic, one.queue_id): one.high for one in FileBackend(path, "auto").bounds()}.items()
    ):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    return path


def once(cluster: Broker, topic: str, but: str = "") -> Counter[str]:
    return Counter(repr(facts(one, but)) for one in messages_of(cluster, topic))


def source(cluster: Broker, topic: str, **options: str) -> Source:
    return Source("", cluster.nameservers, {"subscribe": topic, **options})


def planned(job: Any, spark: Any) -> dict[str, Cell]:  # noqa: ANN401 - any job; Spark's session
    return {row[0]: row[1] for row in job.plan(spark).rows}


def documented(heading: str) -> list[str]:
    """Return the keys of a table of the reference page, in order."""
    text = ROWS.read_text().partition(f"### {heading}\n")[2].partition("\n#")[0]
    return [
        name for row in re.findall(r"^\| (`[^|]+) \|", text, re.MULTILINE) for name in re.findall(r"`([^`]+)`", row)
    ]


def go(spark: Any, job: Any, **more: Any) -> Report:  # noqa: ANN401 - Spark's session; any job
    report: Report = job.run(Run(spark, **more))
    return report


@pytest.mark.parametrize("name", ["all", "all.jsonl", "all-csv"])
def test_an_export_imported_is_the_same_once(
    spark: Any,  # noqa: ANN401
    cluster: Broker,
    make: Callable[[], str],
    tmp_path: Path,
    name: str,
) -> None:
    topic, to = make(), make()
    wanted = fill(cluster, topic, 90)
    form: Any = "csv" if name == "all-csv" else None
    options = {"maxRecordsPerPartition": "20"}
    job = Export(source=source(cluster, topic, **options), to=tmp_path / name, form=form)
    report = go(spark, job)
    assert (report.status, report.figures["rows"]) == ("done", 90)
    assert go(spark, job).notes == ["It was finished before, and nothing was written; a newer one needs a new name."]
    given = Import(path=tmp_path / name, topic=to, brokers=cluster.nameservers, slice_rows=40, state=tmp_path / "s")
    report = go(spark, given)
    assert (report.status, report.figures["written"]) == ("done", 90)
    assert int(str(report.figures["slices"])) >= 3
    assert once(cluster, to) == wanted
    assert len(json.loads((tmp_path / "s" / "progress.json").read_text())["logs"]) == 2
    for state in (tmp_path / "s", tmp_path / "lost"):  # the brokers remember, too
        again = go(
            spark, Import(path=tmp_path / name, topic=to, brokers=cluster.nameservers, slice_rows=40, state=state)
        )
        assert (again.figures["written"], again.figures["written_before"]) == (0, 90)
    assert once(cluster, to) == wanted


def test_a_selection_is_exported_and_nothing_else_is_touched(
    spark: Any,  # noqa: ANN401
    cluster: Broker,
    make: Callable[[], str],
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
) -> None:
    topic = make()
    fill(cluster, topic, 30)
    columns = ("queue_offset", "tags", "keys")
    job = Export(
        source=source(cluster, topic), to=tmp_path / "even.jsonl", where="properties['n'] < '2' AND tags = 'even'",
        columns=columns,
    )  # fmt: skip
    plan = planned(job, spark)
    assert (plan["rows"], plan["columns"], plan["is there already"]) == (6, "queue_offset, tags, keys", "no")
    assert not (tmp_path / "even.jsonl").exists()
    (tmp_path / ".even.jsonl.writing").mkdir()
    report = go(spark, job)
    lines = [json.loads(line) for line in (tmp_path / "even.jsonl").read_text().splitlines()]
    assert {one["keys"] for one in lines} == {"k0", "k10", "k12", "k14", "k16", "k18"}
    assert {tuple(one) for one in lines} == {columns}
    manifest = json.loads((tmp_path / "even.jsonl.manifest.json").read_text())
    assert (manifest["rows"], manifest["files"][0]["name"]) == (6, "even.jsonl")
    assert not list(tmp_path.glob(".*"))
    write_report(report, as_json=False)
    table = capfd.readouterr().out
    assert "rows    6\n" in table
    assert "status  done\n" in table
    write_report(report, as_json=True)
    told = json.loads(capfd.readouterr().out)
    assert list(told["figures"]) == documented("Figures of export")
    assert list(manifest) == documented("Manifest of an export")
    assert (told["job"], told["figures"]["files"], told["outputs"][0]) == ("export", 1, str(tmp_path / "even.jsonl"))
    with pytest.raises(InvalidRequest, match=r"a finished export of something else; it differs in where: .properties"):
        go(spark, replace(job, where=""))
    with pytest.raises(InvalidRequest, match="--where 'nope = 1' cannot be used"):
        go(spark, replace(job, to=tmp_path / "other", where="nope = 1"))
    with pytest.raises(InvalidRequest, match="there is no column 'colour'"):
        go(spark, replace(job, to=tmp_path / "other", columns=("colour",)))
    with pytest.raises(Exception, match="no UTF-8; export with --body base64"):
        go(spark, replace(job, to=tmp_path / "text.jsonl", columns=(), body="text"))
    assert not (tmp_path / "text.jsonl").exists()
    (tmp_path / "even.jsonl").write_text("less")
    with pytest.raises(InvalidRequest, match="is 4 bytes long, its manifest says"):
        go(spark, job)


def test_views_of_a_store_and_nothing_at_all(
    spark: Any,  # noqa: ANN401
    cluster: Broker,
    make: Callable[[], str],
    tmp_path: Path,
) -> None:
    topic = make()
    fill(cluster, topic, 40)
    queues = Export(
        source=Source(store_of(cluster, topic), "", {"view": "queues"}), to=tmp_path / "queues.csv", columns=("topic",)
    )
    assert int(str(go(spark, queues).figures["rows"])) > 0
    empty = Export(source=source(cluster, "", subscribePattern="nobodys.*"), to=tmp_path / "empty.csv")
    assert go(spark, empty).figures["rows"] == 0
    assert (tmp_path / "empty.csv").read_text().startswith("topic,broker,queue_id,")


def test_nothing_is_written_of_what_cannot_be_written_whole(
    spark: Any,  # noqa: ANN401
    cluster: Broker,
    make: Callable[[], str],
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
) -> None:
    topic = make()
    rows = "".join(json.dumps({"payload": number, "id": f"o-{number}"}) + "\n" for number in range(20))
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.jsonl").write_text(rows)
    (tmp_path / "in" / "b.jsonl").write_text('nonsense\n{"payload": 99, "id": null}\n')
    job = Import(
        path=tmp_path / "in", topic=topic, brokers=cluster.nameservers, renames=(("body", "payload"), ("keys", "id")),
        state=tmp_path / "s",
    )  # fmt: skip
    with pytest.raises(
        InvalidRequest, match=r"1 rows cannot be messages, and nothing was written; .*b.jsonl at byte 0"
    ):
        go(spark, job)
    with pytest.raises(InvalidRequest, match="no column body or value among: payload, id"):
        go(spark, replace(job, renames=()))
    with pytest.raises(UnknownTopic, match=r"there is no topic 'nobodys' .*add --create-topic"):
        go(spark, replace(job, topic="nobodys"))
    with pytest.raises(InvalidRequest, match="needs --quarantine DIR"):
        go(spark, replace(job, on_bad="quarantine"))
    assert messages_of(cluster, topic) == []
    new = f"{topic}-new"
    keeps = replace(job, topic=new, creates_topic=True, queues=2, on_bad="quarantine", quarantine=tmp_path / "bad")
    plan = planned(keeps, spark)
    assert (plan["rows"], plan["bad rows"], plan["body"]) == (22, 1, "payload (body)")
    assert str(plan["to"]).endswith("which would be made")
    report = go(spark, keeps)
    assert (report.figures["written"], report.figures["bad"]) == (21, 1)
    assert list(report.figures) == documented("Figures of import")
    write_report(report, as_json=False)
    assert "bad             1\n" in capfd.readouterr().out
    assert Counter(one.body for one in messages_of(cluster, new)) == Counter(b"%d" % n for n in (*range(20), 99))
    [kept] = (tmp_path / "bad").iterdir()
    assert json.loads(kept.read_text())["row"] == "nonsense"


def test_a_replay_sends_what_was_there_once(
    spark: Any,  # noqa: ANN401
    cluster: Broker,
    make: Callable[[], str],
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
) -> None:
    topic, to = make(), make()
    wanted = fill(cluster, topic, 80)
    job = Replay(
        source=source(cluster, topic), topic=topic, to=to, to_brokers=cluster.nameservers, rate=20, state=tmp_path / "s"
    )
    plan = planned(job, spark)
    assert (plan["messages"], plan["slices sent before"], plan["seconds at least"]) == (80, 0, 4)
    began = time.monotonic()
    stops = iter([False] * 4)
    report = go(spark, job, should_stop=lambda: next(stops, True))
    assert report.status == "stopped"
    sent = int(str(report.figures["sent"]))
    assert sent < 80
    fill(cluster, topic, 7)  # they are not part of it any more
    report = go(spark, job)
    assert (report.status, report.figures["sent"], report.figures["sent_before"]) == ("done", 80 - sent, sent)
    assert time.monotonic() - began >= 2
    assert once(cluster, to, but="REPLAY_ORIGIN") == wanted
    origins = {one.properties["REPLAY_ORIGIN"] for one in messages_of(cluster, to)}
    assert len(origins) == 80
    assert {origin.split("/")[1] for origin in origins} == {"broker-a", "second"}
    again = go(spark, job)
    assert list(again.figures) == documented("Figures of replay")
    assert (again.figures["sent"], again.figures["sent_before"]) == (0, 80)
    write_report(again, as_json=False)
    out = capfd.readouterr().out
    assert "sent before  80\n" in out
    assert "nothing was sent twice" in out
    write_report(again, as_json=True)
    assert json.loads(capfd.readouterr().out)["inputs"]["to"] == to
    with pytest.raises(InvalidRequest, match="its plan is not in"):
        go(spark, replace(job, state=tmp_path / "lost"))
    with pytest.raises(InvalidRequest, match="holds the plan of another selection"):
        go(spark, replace(job, where="tags = 'even'"))
    with pytest.raises(InvalidRequest, match="replayed into itself"):
        go(spark, replace(job, to=topic))


def test_a_replay_by_sql_out_of_store_files(
    spark: Any,  # noqa: ANN401
    cluster: Broker,
    make: Callable[[], str],
    tmp_path: Path,
) -> None:
    topic, to = make(), make()
    fill(cluster, topic, 40)
    files = Source(store_of(cluster, topic), "", {"subscribe": topic})
    job = Replay(
        source=files, topic=topic, to=to, to_brokers=cluster.nameservers, where="tags = 'even'", run_id="by-hand",
        state=tmp_path / "s",
    )  # fmt: skip
    with pytest.raises(InvalidRequest, match="a time ago is another time with every run"):
        go(spark, replace(job, run_id="", source=replace(files, options={**files.options, "startingTimestamp": "-1h"})))
    go(spark, job)
    found = messages_of(cluster, to)
    here = [one for one in messages_of(cluster, topic) if one.broker == "broker-a" and one.tags == "even"]
    assert Counter(repr(facts(one, "REPLAY_ORIGIN")) for one in found) == Counter(repr(facts(one)) for one in here)
    assert {one.properties["REPLAY_ORIGIN"] for one in found} == {
        f"{topic}/-/{one.queue_id}/{one.queue_offset}" for one in here
    }


def test_dead_letters_are_grouped_kept_and_sent_again(
    spark: Any,  # noqa: ANN401
    cluster: Broker,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
) -> None:
    death = Death(cluster.nameservers, cluster.address)
    with litemq.Admin(cluster.nameservers) as admin:
        for topic in ("bills", "returns"):
            admin.create_topic(topic, queues=2, placement="exclusive:broker-a")
    death.dead_in("bills", "billing", [b"%d" % number for number in range(6)], "order 17 not found")
    death.kill("billing", death.send("bills", [b"x"]), "order 18 not found")
    death.kill("billing", death.send("returns", [b"y"]), "card refused")
    job = DeadLetterReport(source=Source("", cluster.nameservers), brokers=cluster.nameservers, group="billing")
    report = go(spark, job)
    groups = report.tables["groups"].to_json()
    assert list(groups[0]) == documented("Groups of dead letters")
    assert [(one["count"], one["origin_topic"], one["error"]) for one in groups] == [
        (7, "bills", "order # not found"),
        (1, "returns", "card refused"),
    ]
    write_report(report, as_json=False)
    out = capfd.readouterr().out
    assert "ORIGIN TOPIC" in out
    assert "order # not found" in out
    some = replace(job, topic="bills", error_like="%18%", archive=tmp_path / "kept", redrive=True, to="origin")
    assert [list(row) for row in some.plan(spark).rows] == [["billing", 1, 0]]
    report = go(spark, some)
    assert (report.figures["archived"], report.figures["sent"]) == (1, 1)
    assert list(report.figures) == documented("Figures of dlq")
    assert spark.read.parquet(str(tmp_path / "kept")).select("error").first().error == "order 18 not found"
    with litemq.Admin(cluster.nameservers) as admin:  # the other command knows what this one sent, and the other way
        assert admin.redrive("billing", to="origin").skipped == 1
    report = go(spark, replace(job, redrive=True, to="origin"))
    assert (report.figures["sent"], report.figures["redriven_before"]) == (0, 8)
    assert Counter(one.body for one in messages_of(cluster, "bills"))[b"x"] == 2
    with pytest.raises(InvalidRequest, match="--where 'nope' cannot be used"):
        go(spark, replace(job, where="nope"))
    death.close()


def test_an_import_that_is_killed_goes_on(
    spark: Any,  # noqa: ANN401
    cluster: Broker,
    make: Callable[[], str],
    tmp_path: Path,
) -> None:
    topic = make()
    count = 1200
    (tmp_path / "in.csv").write_text("body\n" + "".join(f"{number}\n" for number in range(count)))
    command = [sys.executable, "-m", "litemq", "pipeline", "import", "--from", str(tmp_path / "in.csv"), "--json"]
    command += ["--topic", topic, "--nameserver", cluster.nameservers, "--slice", "200", "--state", str(tmp_path / "s")]
    java = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
    command += ["--master", "local[1]", "--conf", f"spark.driver.extraJavaOptions={java}"]
    with (tmp_path / "log").open("w") as log:
        running = subprocess.Popen(command, stdout=log, stderr=log, process_group=0)
        deadline = time.monotonic() + 400  # a machine that does much else starts a Spark slowly
        while not (tmp_path / "s" / "progress.json").exists():
            assert running.poll() is None, (tmp_path / "log").read_text()
            assert time.monotonic() < deadline, (tmp_path / "log").read_text()
            time.sleep(0.01)
        time.sleep(0.3)
        os.killpg(running.pid, signal.SIGKILL)
        running.wait()
    job = Import(
        path=tmp_path / "in.csv", topic=topic, brokers=cluster.nameservers, slice_rows=200, state=tmp_path / "s"
    )
    sent = json.loads((tmp_path / "s" / "progress.json").read_text())["slices"]
    assert 0 < sent < 6
    report = go(spark, job)
    assert report.status == "done"
    assert sent * 200 <= int(str(report.figures["written_before"])) <= (sent + 1) * 200
    assert Counter(int(one.body) for one in messages_of(cluster, topic)) == Counter(range(count))
