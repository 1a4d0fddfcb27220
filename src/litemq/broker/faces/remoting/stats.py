"""Requests for what the broker has done."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

from litemq.broker.meters import Flow, Meter, Window
from litemq.broker.runtime_info import runtime_info
from litemq.wire.remoting import bodies, fields
from litemq.wire.remoting.codes import Ask, Code
from litemq.wire.remoting.command import Request, Response
from litemq.wire.remoting.connection import Connection, Handlers

if TYPE_CHECKING:
    from litemq.broker.broker import Broker

_OF_TOPICS = {"TOPIC_PUT_NUMS": False, "TOPIC_PUT_SIZE": True}
_OF_GROUPS = {"GROUP_GET_NUMS": False, "GROUP_GET_SIZE": True}
_OF_BROKER = ("BROKER_PUT_NUMS", "BROKER_GET_NUMS")
_SENT_BACK = "SNDBCK_PUT_NUMS"


def handlers(broker: Broker) -> Handlers:
    """Return who answers which request."""

    def runtime(_connection: Connection, _request: Request) -> Response:
        return Response(body=bodies.dump({"table": runtime_info(broker)}))

    def view(_connection: Connection, request: Request) -> Response:
        name, key = fields.text(request.ext, "statsName"), fields.text(request.ext, "statsKey")
        meter = _meter(broker, name, key)
        if meter is None:
            return Response(Code.SYSTEM_ERROR, remark=f"The stats <{name}> <{key}> not exist")
        is_size = name.endswith("_SIZE")
        now_ms = broker.clock.now_ms()
        told = {
            "statsDay": _snapshot(meter.over(Window.DAY, now_ms), is_size),
            "statsHour": _snapshot(meter.over(Window.HOUR, now_ms), is_size),
            "statsMinute": _snapshot(meter.over(Window.MINUTE, now_ms), is_size),
        }
        return Response(body=bodies.dump(told))

    def own(_connection: Connection, _request: Request) -> Response:
        return Response(body=bodies.dump(own_statistics(broker)))

    return {
        Ask.GET_BROKER_RUNTIME_INFO: runtime,
        Ask.VIEW_BROKER_STATS_DATA: view,
        Ask.LITEMQ_STATISTICS: own,
    }


def _meter(broker: Broker, name: str, key: str) -> Meter | None:
    """Return what is asked for, looked at anew."""
    seen = broker.statistics
    now_ms = broker.clock.now_ms()
    topic, _, group = key.rpartition("@")
    if name in _OF_TOPICS:
        seen.look_at(key, now_ms)
        return seen.puts.get(key)
    if name in _OF_GROUPS:
        seen.look_at_group((group, topic), now_ms)
        return seen.gets.get((group, topic))
    if name == _SENT_BACK:
        seen.look_at_back((group, topic), now_ms)
        return seen.backs.get((group, topic))
    if name in _OF_BROKER and key in (broker.config.cluster, broker.config.name):
        seen.look_at_broker(now_ms)
        return seen.put if name == "BROKER_PUT_NUMS" else seen.got
    return None


def _snapshot(flow: Flow, is_size: bool) -> dict[str, float]:
    if is_size:
        return {"avgpt": flow.size / flow.count if flow.count else 0.0, "sum": flow.size, "tps": flow.size_per_s}
    return {"avgpt": 1.0 if flow.count else 0.0, "sum": flow.count, "tps": flow.per_s}


def own_statistics(broker: Broker) -> dict[str, object]:
    """Return LiteMQ's own statistics; every part of the broker that reports is in it under its name."""
    server = broker.server
    told: dict[str, object] = {
        "version": 1,
        "broker": {
            "name": broker.config.name,
            "cluster": broker.config.cluster,
            "address": broker.address,
            "format": broker.store.format,
            "flush": broker.store_config.flush,
            "bootMs": broker.statistics.boot_ms,
        },
        "messages": {
            "put": broker.statistics.put_total,
            "delivered": broker.statistics.got_total,
            "sentBack": sum(broker.retries.sent_back.values()),
            "dead": sum(broker.retries.died.values()),
            "repliesPushed": broker.replies.pushed,
            "repliesFailed": broker.replies.failed,
        },
        "pulls": {
            "found": broker.puller.found,
            "missed": broker.puller.missed,
            "parked": len(broker.puller.polls),
        },
        "connections": {
            "open": len(server.connections),
            "refused": server.refused,
            "slowReaders": server.slow_readers,
        },
        "topics": len(broker.topics),
        "groups": len(broker.groups),
        "members": len(broker.clients.membership),
        "heldAnswers": len(broker.durability),
        "flushTimeouts": broker.durability.timeouts,
        "limits": asdict(broker.limits),
    }
    for name, report in broker.reports.items():
        told[name] = report()
    return told
