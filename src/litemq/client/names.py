"""Names that brokers take for topics and groups."""

from __future__ import annotations

import re
from typing import Final

from litemq.errors import InvalidRequest

MOST: Final = {"topic": 127, "group": 120}
"""Characters of a name; those that brokers make of groups, ``%RETRY%…`` and ``%DLQ%…``, may be longer."""
_MOST_OF_OWN: Final = 255
_NAME: Final = re.compile(r"[%|a-zA-Z0-9_-]+")


def check_name(what: str, name: object) -> None:
    """Refuse what cannot be the name of a topic or a group.

    Raises:
        InvalidRequest: says which names can.
    """
    most = MOST.get(what, MOST["topic"])
    if isinstance(name, str) and _NAME.fullmatch(name) and len(name) <= (_MOST_OF_OWN if name[0] == "%" else most):
        return
    raise InvalidRequest(
        f"the {what} {name!r} cannot be used: 1 to {most} of the characters a-z A-Z 0-9 _ - % | are allowed"
    )
