"""What a name server tells of all it knows: cluster table, topic lists, members of a broker name."""

from __future__ import annotations

from collections.abc import Callable

from litemq.nameserver.routes import Routes
from litemq.wire.remoting.bodies import dump

UNIT = 1
UNIT_SUBSCRIPTION = 2
"""Bits of a topic's sys flag."""


def cluster_info(routes: Routes) -> bytes:
    """Return all brokers and the clusters they form."""
    brokers = sorted(routes.brokers.items())
    clusters: dict[str, list[str]] = {}
    for name, broker in brokers:
        clusters.setdefault(broker.cluster, []).append(name)
    return dump({"brokerAddrTable": {name: broker.to_json() for name, broker in brokers}, "clusterAddrTable": clusters})


def all_topics(routes: Routes) -> bytes:
    """Return the names of all topics, those of retries too: tools find consumer groups by them."""
    return dump({"topicList": list(routes.topics)})


def topics_of_cluster(routes: Routes, cluster: str) -> bytes:
    """Return the topics of a cluster; none of one that is not there."""
    found: set[str] = set()
    for broker in routes.brokers.values():
        if broker.cluster == cluster:
            found |= broker.topics
    return dump({"topicList": sorted(found)})


def system_topics(routes: Routes) -> bytes:
    """Return cluster and broker names, which are topics too, and a broker who knows the other system topics."""
    names = dict.fromkeys(broker.cluster for broker in routes.brokers.values())
    names.update(dict.fromkeys(routes.brokers))
    shown: dict[str, object] = {"topicList": list(names)}
    address = next((next(iter(broker.addresses().values())) for broker in routes.brokers.values()), None)
    if address is not None:
        shown["brokerAddr"] = address
    return dump(shown)


def topics_by_flag(routes: Routes, has: Callable[[int], bool]) -> bytes:
    """Return the topics whose sys flag, on the first broker that has them, is as asked for."""
    found = [name for name, offered in routes.topics.items() if has(next(iter(offered.values())).sys_flag)]
    return dump({"topicList": found})


def member_group(routes: Routes, cluster: str, name: str) -> bytes:
    """Return the addresses of a broker name; none of one that is not there."""
    broker = routes.brokers.get(name)
    addresses = broker.addresses() if broker is not None else {}
    return dump({"brokerMemberGroup": {"brokerAddrs": addresses, "brokerName": name, "cluster": cluster}})
