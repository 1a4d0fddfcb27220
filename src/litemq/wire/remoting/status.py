"""Which response code an error becomes: the only place that knows both."""

from __future__ import annotations

import logging

from litemq import errors
from litemq.wire.remoting.codes import Code
from litemq.wire.remoting.command import Response

logger = logging.getLogger(__name__)

CODES: dict[type[BaseException], Code] = {
    errors.InvalidRequest: Code.INVALID_PARAMETER,
    errors.RecordTooLarge: Code.MESSAGE_ILLEGAL,
    errors.NotSupported: Code.MESSAGE_ILLEGAL,
    errors.BadReceipt: Code.MESSAGE_ILLEGAL,
    errors.StaleReceipt: Code.NO_MESSAGE,
    errors.ReservedName: Code.NO_PERMISSION,
    errors.NoPermission: Code.NO_PERMISSION,
    errors.UnknownTopic: Code.TOPIC_NOT_EXIST,
    errors.UnknownGroup: Code.SUBSCRIPTION_GROUP_NOT_EXIST,
    errors.BadFilter: Code.SUBSCRIPTION_PARSE_FAILED,
    errors.NotSubscribed: Code.SUBSCRIPTION_NOT_EXIST,
    errors.UnknownMessage: Code.SYSTEM_ERROR,
    errors.NotOnline: Code.CONSUMER_NOT_ONLINE,
    errors.Closed: Code.SERVICE_NOT_AVAILABLE,
    errors.Unavailable: Code.SYSTEM_BUSY,
    errors.NoAnswer: Code.CONSUME_MSG_TIMEOUT,
    errors.StoreFull: Code.SERVICE_NOT_AVAILABLE,
    errors.FlushTimeout: Code.FLUSH_DISK_TIMEOUT,
    errors.StorageError: Code.SERVICE_NOT_AVAILABLE,
    errors.LiteMQError: Code.SYSTEM_ERROR,
}
"""An error that is not listed is answered as the nearest of its parents."""


def answer_to(error: BaseException) -> Response:
    """Return the answer that tells a client of ``error``; what nobody foresaw is logged with its trace."""
    for kind in type(error).__mro__:
        code = CODES.get(kind)
        if code is not None:
            return Response(code, remark=str(error))
    logger.error("a request failed unexpectedly", exc_info=error)
    return Response(Code.SYSTEM_ERROR, remark=f"{type(error).__name__}: {error}")
