"""Requests for the broker's settings."""

from __future__ import annotations

from typing import TYPE_CHECKING

from litemq.errors import BadBody
from litemq.wire.remoting import bodies
from litemq.wire.remoting.codes import Ask
from litemq.wire.remoting.command import Request, Response
from litemq.wire.remoting.connection import Connection, Handlers

if TYPE_CHECKING:
    from litemq.broker.broker import Broker


def handlers(broker: Broker) -> Handlers:
    """Return who answers which request."""

    def show(_connection: Connection, _request: Request) -> Response:
        settings = {**broker.live_config.rocketmq_names(broker.address), **broker.live_config.own_names()}
        version = bodies.dump(broker.version.to_json()).decode()
        return Response(ext={"version": version}, body=bodies.properties_text(settings))

    def update(_connection: Connection, request: Request) -> Response:
        pairs = bodies.parse_properties(request.body)
        if not pairs:
            raise BadBody("the request names no setting")
        broker.live_config.update(pairs)
        return Response()

    return {Ask.GET_BROKER_CONFIG: show, Ask.UPDATE_BROKER_CONFIG: update}
