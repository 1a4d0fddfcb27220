"""The table of a broker's state that tools show: RocketMQ's keys, texts as values."""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING

from litemq._version import VERSION
from litemq.wire.remoting import codes

if TYPE_CHECKING:
    from litemq.broker.broker import Broker

_GIB = 1 << 30


def runtime_info(broker: Broker) -> dict[str, str]:
    """Return the table; keys of parts that are not here say so by 0."""
    return {**_identity(broker), **_traffic(broker), **_log(broker), **_waiting(broker), **_pauses(broker)}


def _identity(broker: Broker) -> dict[str, str]:
    now = broker.clock.now_ms()
    up_s = max(now - broker.statistics.boot_ms, 0) // 1000
    days, hours, minutes, seconds = up_s // 86_400, up_s // 3_600 % 24, up_s // 60 % 60, up_s % 60
    return {
        "brokerVersionDesc": f"V5_3_3.LiteMQ_{VERSION}",  # tools expect RocketMQ's form: the version of our answers
        "brokerVersion": str(codes.VERSION),
        "brokerActive": "true",
        "brokerRole": "ASYNC_MASTER",
        "bootTimestamp": str(broker.statistics.boot_ms),
        "runtime": f"[ {days} days, {hours} hours, {minutes} minutes, {seconds} seconds ]",
    }


def _traffic(broker: Broker) -> dict[str, str]:
    seen = broker.statistics
    put, got = seen.put_total, seen.got_total
    size = broker.store.appended_end - seen.log_start
    found, missed = _three(broker, "found"), _three(broker, "missed")
    total = " ".join(
        f"{seen.rates.per_s('found', span) + seen.rates.per_s('missed', span):.4f}" for span in (10, 60, 600)
    )
    return {
        "putTps": _three(broker, "put"),
        "getTransferredTps": _three(broker, "got"),
        "getTransferedTps": _three(broker, "got"),  # RocketMQ 4's spelling
        "getFoundTps": found,
        "getMissTps": missed,
        "getTotalTps": total,
        "putMessageTimesTotal": str(put),
        "getMessageEntireTimeMax": "0",
        "putMessageEntireTimeMax": "0",
        "putMessageSizeTotal": str(size),
        "putMessageAverageSize": f"{size / put if put else 0:.1f}",
        "putMessageDistributeTime": "",
        "putLatency99": "0.0",
        "putLatency999": "0.0",
        "msgPutTotalYesterdayMorning": str(seen.yesterday[0]),
        "msgPutTotalTodayMorning": str(seen.morning[0]),
        "msgPutTotalTodayNow": str(put),
        "msgGetTotalYesterdayMorning": str(seen.yesterday[1]),
        "msgGetTotalTodayMorning": str(seen.morning[1]),
        "msgGetTotalTodayNow": str(got),
    }


def _three(broker: Broker, name: str) -> str:
    return " ".join(f"{broker.statistics.rates.per_s(name, span):.4f}" for span in (10, 60, 600))


def _log(broker: Broker) -> dict[str, str]:
    store = broker.store
    disk = shutil.disk_usage(broker.data)
    ratio = f"{disk.used / disk.total if disk.total else 0:.4f}"
    first = next(store.reader.walk(store.start), None)
    return {
        "commitLogDiskRatio": ratio,
        f"commitLogDiskRatio_{broker.data}": ratio,
        "consumeQueueDiskRatio": ratio,
        "commitLogDirCapacity": f"Total : {disk.total / _GIB:.1f} GiB, Free : {disk.free / _GIB:.1f} GiB.",
        "commitLogMinOffset": str(store.start),
        "commitLogMaxOffset": str(store.appended_end),
        "earliestMessageTimeStamp": str((first.store_time or -1) if first is not None else -1),
        "dispatchBehindBytes": "0",
        "remainHowManyDataToFlush": f"{store.appended_end - store.flushed_end} B",
        "remainHowManyDataToCommit": "0 B",
        "pageCacheLockTimeMills": "0",
        "dispatchMaxBuffer": "0",
        "startAcceptSendRequestTimeStamp": "0",
    }


def _waiting(broker: Broker) -> dict[str, str]:
    limits = broker.limits
    told = {
        "pullThreadPoolQueueSize": str(len(broker.puller.polls)),
        "pullThreadPoolQueueCapacity": str(limits.parked_pulls),
        "sendThreadPoolQueueSize": str(len(broker.durability)),
        "sendThreadPoolQueueCapacity": "0",
        "timerReadBehind": "0",
        "timerOffsetBehind": "0",
        "timerCongestNum": "0",
        "timerEnqueueTps": "0.0",
        "timerDequeueTps": "0.0",
    }
    for pool in ("ack", "query", "end", "litePull"):
        told |= {f"{pool}ThreadPoolQueueSize": "0", f"{pool}ThreadPoolQueueCapacity": "0"}
    for pool in ("send", "pull", "ack", "query", "litePull"):
        told[f"{pool}ThreadPoolQueueHeadWaitTimeMills"] = "0"
    return told


def _pauses(broker: Broker) -> dict[str, str]:
    """Return LiteMQ's own keys: what kept the loop from running, by cause, and the newest pauses as JSON."""
    report = broker.pauses.report()
    return {
        "litemqLoopPauses": json.dumps(report["causes"]),
        "litemqLoopPauseOwnMaxMs": str(report["longest_own_ms"]),
        "litemqLoopPausesLast": json.dumps(report["last"]),
    }
