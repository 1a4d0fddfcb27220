"""What answers of servers say, as results or as errors: the reverse of ``wire/remoting/status``."""

from __future__ import annotations

import json
import re
from typing import Any

from litemq import errors
from litemq.wire.remoting.codes import Code
from litemq.wire.remoting.command import Response

_ERRORS: dict[int, type[errors.LiteMQError]] = {
    Code.SYSTEM_BUSY: errors.Busy,
    Code.FLUSH_DISK_TIMEOUT: errors.FlushTimeout,
    Code.SERVICE_NOT_AVAILABLE: errors.Unavailable,
    Code.SYSTEM_ERROR: errors.Unavailable,
    Code.NO_PERMISSION: errors.NoPermission,
    Code.TOPIC_NOT_EXIST: errors.UnknownTopic,
    Code.SUBSCRIPTION_GROUP_NOT_EXIST: errors.UnknownGroup,
    Code.REQUEST_CODE_NOT_SUPPORTED: errors.NotSupported,
}
"""By code; others are ``InvalidRequest``: the server says what is wrong with it."""

_AGAIN = re.compile(r"try again in (\d+) ms")


def error_of(answer: Response, address: str) -> errors.LiteMQError:
    """Return the error that a refusal means."""
    kind = _ERRORS.get(answer.code, errors.InvalidRequest)
    text = answer.remark or f"code {answer.code} without a reason"
    error = kind(f"{address} refuses: {text}")
    if isinstance(error, errors.Unavailable):
        found = _AGAIN.search(text)
        error.retry_after = int(found[1]) / 1000 if found else None
    return error


def check(answer: Response, address: str) -> Response:
    """Return an answer that grants what was asked.

    Raises:
        LiteMQError: it refuses.
    """
    if answer.code != Code.SUCCESS:
        raise error_of(answer, address)
    return answer


def json_object(answer: Response) -> dict[str, Any]:
    """Return the JSON object in an answer's body; fastjson's bare number keys are quoted first."""
    text = answer.body.decode("utf-8", "replace")
    try:
        found = json.loads(text or "{}")
    except ValueError:
        found = json.loads(re.sub(r"([{,]\s*)(-?\d+)\s*:", r'\1"\2":', text))
    return found if isinstance(found, dict) else {}
