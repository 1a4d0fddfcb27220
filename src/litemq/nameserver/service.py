"""Request codes of a name server: each becomes one call of the core."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace

from litemq.clock import Clock
from litemq.config import NameserverConfig
from litemq.errors import BadBody, UnknownTopic
from litemq.nameserver import settings, views
from litemq.nameserver.brokers import Accepted, Announcement, Refused
from litemq.nameserver.kv import ORDER_TOPIC_CONFIG, KeyValues
from litemq.nameserver.routes import Routes
from litemq.wire.remoting import bodies, fields, topic_table
from litemq.wire.remoting.codes import Ask, Code
from litemq.wire.remoting.command import Request, Response
from litemq.wire.remoting.connection import Connection, Handler, Handlers
from litemq.wire.remoting.topic_table import DELETED, FULL_TABLE

_SHORTEST_TIMEOUT_MS = 1_000
_LONGEST_TIMEOUT_MS = 86_400_000


class Service:
    """One name server's core and what its handlers share."""

    def __init__(self, config: NameserverConfig, kv: KeyValues, clock: Clock) -> None:
        self.routes = Routes(heartbeat_expiry_ms=config.heartbeat_expiry_ms, broker_expiry_ms=config.broker_expiry_ms)
        self.kv = kv
        self.config = config
        self.config_changed = asyncio.Event()
        self._clock = clock

    def handlers(self) -> Handlers:
        """Return request code → handler."""
        return {
            Ask.GET_ROUTEINFO_BY_TOPIC: self._route,
            Ask.REGISTER_BROKER: self._register,
            Ask.UNREGISTER_BROKER: self._unregister,
            Ask.BROKER_HEARTBEAT: self._heartbeat,
            Ask.QUERY_DATA_VERSION: self._query_data_version,
            Ask.PUT_KV_CONFIG: self._put_kv,
            Ask.GET_KV_CONFIG: self._get_kv,
            Ask.DELETE_KV_CONFIG: self._delete_kv,
            Ask.GET_KVLIST_BY_NAMESPACE: self._list_kv,
            Ask.GET_BROKER_CLUSTER_INFO: lambda _, __: Response(body=views.cluster_info(self.routes)),
            Ask.GET_ALL_TOPIC_LIST_FROM_NAMESERVER: self._all_topics,
            Ask.GET_TOPICS_BY_CLUSTER: self._topics_of_cluster,
            Ask.GET_SYSTEM_TOPIC_LIST_FROM_NS: lambda _, __: Response(body=views.system_topics(self.routes)),
            Ask.GET_UNIT_TOPIC_LIST: self._by_flag(lambda flag: bool(flag & views.UNIT)),
            Ask.GET_HAS_UNIT_SUB_TOPIC_LIST: self._by_flag(lambda flag: bool(flag & views.UNIT_SUBSCRIPTION)),
            Ask.GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST: self._by_flag(
                lambda flag: flag & (views.UNIT | views.UNIT_SUBSCRIPTION) == views.UNIT_SUBSCRIPTION
            ),
            Ask.DELETE_TOPIC_IN_NAMESRV: self._delete_topic,
            Ask.REGISTER_TOPIC_IN_NAMESRV: self._register_topic,
            Ask.WIPE_WRITE_PERM_OF_BROKER: self._wipe_write,
            Ask.ADD_WRITE_PERM_OF_BROKER: self._add_write,
            Ask.GET_BROKER_MEMBER_GROUP: self._member_group,
            Ask.UPDATE_NAMESRV_CONFIG: self._update_config,
            Ask.GET_NAMESRV_CONFIG: lambda _, __: Response(body=bodies.properties_text(settings.shown(self.config))),
        }

    # -- clients ---------------------------------------------------------------------------------

    def _route(self, _: Connection, request: Request) -> Response:
        topic = fields.text(request.ext, "topic")
        route = self.routes.route(topic)
        if route is None:
            raise UnknownTopic(f"no route of the topic {topic[:255]}: no broker has registered it")
        return Response(body=route)

    # -- brokers ---------------------------------------------------------------------------------

    def _register(self, connection: Connection, request: Request) -> Response:
        ext, body, now_ms = request.ext, request.body, self._clock.monotonic_ms()
        wanted = fields.long(ext, "bodyCrc32", 0)
        if wanted and wanted != topic_table.checksum(body):
            return Response(Code.SYSTEM_ERROR, remark=f"the body's CRC is {topic_table.checksum(body)}, not {wanted}")
        said = _announcement(request)
        mark = (sorted(ext.items()), len(body), hash(body))
        answer: Accepted | Refused | None = self.routes.is_repeated(said, mark, connection, now_ms)
        if answer is None:
            table = topic_table.decode(body, compressed=fields.truth(ext, "compressed"))
            said = replace(said, version=table.version, topics=table.topics)
            answer = self.routes.register(said, connection, now_ms, mark)
        if isinstance(answer, Refused):
            return Response(Code.SYSTEM_ERROR, remark=answer.reason)
        if self._lost not in connection.on_lost:
            connection.on_lost.append(self._lost)
        found = {
            "haServerAddr": answer.ha_address,
            "masterAddr": answer.master_address,
            FULL_TABLE: ext.get(FULL_TABLE),
        }
        order = self.kv.namespace(ORDER_TOPIC_CONFIG) if self.config.return_order_config else None
        return Response(
            ext={name: value for name, value in found.items() if value},
            body=bodies.dump({"table": order}) if order is not None else b"",
        )

    def _lost(self, connection: Connection) -> None:
        self.routes.connection_lost(connection)

    def _unregister(self, _: Connection, request: Request) -> Response:
        self.routes.unregister(fields.text(request.ext, "brokerName"), fields.text(request.ext, "brokerAddr"))
        return Response()

    def _heartbeat(self, _: Connection, request: Request) -> Response:
        name, address = fields.text(request.ext, "brokerName"), fields.text(request.ext, "brokerAddr")
        timeout_ms = _timeout_ms(request.ext.get("heartbeatTimeoutMills"))
        self.routes.heartbeat(name, address, self._clock.monotonic_ms(), timeout_ms=timeout_ms)
        return Response()  # to a broker that is not known as well: RocketMQ's take nothing else for an answer

    def _query_data_version(self, _: Connection, request: Request) -> Response:
        name, address = fields.text(request.ext, "brokerName"), fields.text(request.ext, "brokerAddr")
        version = topic_table.decode_version(request.body)
        is_changed = self.routes.compare(name, address, version, self._clock.monotonic_ms())
        known = self.routes.version_of(name, address)
        return Response(
            ext={"changed": "true" if is_changed else "false"},
            body=bodies.dump(known.to_json()) if known is not None else b"",
        )

    def _member_group(self, _: Connection, request: Request) -> Response:
        cluster, name = fields.text(request.ext, "clusterName"), fields.text(request.ext, "brokerName")
        return Response(body=views.member_group(self.routes, cluster, name))

    # -- topics ----------------------------------------------------------------------------------

    def _all_topics(self, _: Connection, request: Request) -> Response:
        if not self.config.list_all_topics:
            return Response(Code.SYSTEM_ERROR, remark="the setting enableAllTopicList is false")
        return Response(body=views.all_topics(self.routes))

    def _topics_of_cluster(self, _: Connection, request: Request) -> Response:
        return Response(body=views.topics_of_cluster(self.routes, fields.text(request.ext, "cluster")))

    def _by_flag(self, has: Callable[[int], bool]) -> Handler:
        return lambda _, __: Response(body=views.topics_by_flag(self.routes, has))

    def _delete_topic(self, _: Connection, request: Request) -> Response:
        self.routes.delete_topic(fields.text(request.ext, "topic"), request.ext.get("clusterName", ""))
        return Response()

    def _register_topic(self, _: Connection, request: Request) -> Response:
        topic = topic_table.check_name(fields.text(request.ext, "topic"), "the topic")
        offered = topic_table.load_lenient(request.body, "a topic's route").get("queueDatas") or []
        if not isinstance(offered, list):
            raise BadBody("queueDatas of a topic's route is no list")
        queues = [(topic_table.queues_of(data), data.get("brokerName")) for data in offered]
        self.routes.put_queues(topic, {topic_table.check_name(name, "the broker"): found for found, name in queues})
        return Response()

    def _wipe_write(self, _: Connection, request: Request) -> Response:
        count = self.routes.wipe_write(fields.text(request.ext, "brokerName"))
        return Response(ext={"wipeTopicCount": str(count)})

    def _add_write(self, _: Connection, request: Request) -> Response:
        count = self.routes.add_write(fields.text(request.ext, "brokerName"))
        return Response(ext={"addTopicCount": str(count)})

    # -- key/value config and settings -----------------------------------------------------------

    async def _put_kv(self, _: Connection, request: Request) -> Response:
        namespace, key, value = (fields.text(request.ext, name) for name in ("namespace", "key", "value"))
        await self.kv.put(namespace, key, value)
        return Response()

    def _get_kv(self, _: Connection, request: Request) -> Response:
        namespace, key = fields.text(request.ext, "namespace"), fields.text(request.ext, "key")
        value = self.kv.value(namespace, key)
        if value is None:
            return Response(Code.QUERY_NOT_FOUND, remark=f"the namespace {namespace[:255]} has no key {key[:255]}")
        return Response(ext={"value": value})

    async def _delete_kv(self, _: Connection, request: Request) -> Response:
        await self.kv.delete(fields.text(request.ext, "namespace"), fields.text(request.ext, "key"))
        return Response()

    def _list_kv(self, _: Connection, request: Request) -> Response:
        namespace = fields.text(request.ext, "namespace")
        pairs = self.kv.namespace(namespace)
        if pairs is None:
            return Response(Code.QUERY_NOT_FOUND, remark=f"there is no namespace {namespace[:255]}")
        return Response(body=bodies.dump({"table": pairs}))

    def _update_config(self, _: Connection, request: Request) -> Response:
        self.config = settings.changed(self.config, bodies.parse_properties(request.body))
        self.routes.heartbeat_expiry_ms = self.config.heartbeat_expiry_ms
        self.routes.broker_expiry_ms = self.config.broker_expiry_ms
        self.config_changed.set()
        return Response()


def _announcement(request: Request) -> Announcement:
    """Return what the header of a registration says."""
    ext = request.ext
    return Announcement(
        cluster=topic_table.check_name(fields.text(ext, "clusterName"), "the cluster"),
        name=topic_table.check_name(fields.text(ext, "brokerName"), "the broker"),
        broker_id=fields.long(ext, "brokerId"),
        address=topic_table.check_name(fields.text(ext, "brokerAddr"), "the address"),
        ha_address=ext.get("haServerAddr", ""),
        timeout_ms=_timeout_ms(ext.get("heartbeatTimeoutMillis")),
        acting_master=fields.truth(ext, "enableActingMaster") if "enableActingMaster" in ext else None,
        zone=ext.get("__ZONE_NAME") or None,
        is_full=fields.truth(ext, FULL_TABLE) if FULL_TABLE in ext else None,
        deleted=ext[DELETED].split(",") if DELETED in ext else (),
    )


def _timeout_ms(text: str | None) -> int | None:
    """Return a time that a broker announces, kept within reason."""
    timeout_ms = fields.long({"heartbeatTimeoutMillis": text or ""}, "heartbeatTimeoutMillis", 0)
    return min(max(timeout_ms, _SHORTEST_TIMEOUT_MS), _LONGEST_TIMEOUT_MS) if timeout_ms > 0 else None
