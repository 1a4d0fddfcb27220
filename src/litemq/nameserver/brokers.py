"""Brokers as a name server knows them: what they announce, what is kept of it, what they are told."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from litemq.wire.remoting.topic_table import DataVersion, Queues

MASTER_ID = 0
NO_VERSION = DataVersion()


@dataclass(frozen=True, slots=True, kw_only=True)
class Announcement:
    """What a broker says in one registration."""

    cluster: str
    name: str
    broker_id: int
    address: str
    ha_address: str = ""
    timeout_ms: int | None = None
    """Time without a sign of life after which it wants to be taken for dead."""
    acting_master: bool | None = None
    """Whether a copy may stand in for its master; None: the broker is too old to say."""
    zone: str | None = None
    is_full: bool | None = None
    """Whether ``topics`` is all it has; None: it does not say (RocketMQ's brokers never do)."""
    version: DataVersion = NO_VERSION
    topics: Mapping[str, Queues] = field(default_factory=dict)
    deleted: Sequence[str] = ()
    """Topics it had and has no more."""


@dataclass(frozen=True, slots=True)
class Accepted:
    """The answer to a registration; to a copy it names the master."""

    master_address: str = ""
    ha_address: str = ""


@dataclass(frozen=True, slots=True)
class Refused:
    """A registration that changed nothing, and why."""

    reason: str


@dataclass(slots=True)
class Member:
    """One address of a broker name."""

    address: str
    ha_address: str
    version: DataVersion
    owner: object
    seen_ms: int
    timeout_ms: int | None
    heartbeats: bool = False
    mark: object = None
    """Stands for the registration that was taken in last."""
    lacks_topics: bool = False
    """Whether topics were deleted here that the broker may still have."""


@dataclass(slots=True)
class Broker:
    """One broker name."""

    name: str
    cluster: str
    acting_master: bool = False
    zone: str | None = None
    members: dict[int, Member] = field(default_factory=dict)
    topics: set[str] = field(default_factory=set)

    def to_json(self) -> dict[str, object]:
        """Return it as routes and the cluster table show it."""
        shown: dict[str, object] = {
            "brokerAddrs": self.addresses(),
            "brokerName": self.name,
            "cluster": self.cluster,
            "enableActingMaster": self.acting_master,
        }
        if self.zone:
            shown["zoneName"] = self.zone
        return shown

    def addresses(self) -> dict[str, str]:
        """Return broker id → address, lowest id first."""
        return {str(number): self.members[number].address for number in sorted(self.members)}
