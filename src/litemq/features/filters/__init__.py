"""Which messages of a topic a group wants: by tag, or by an SQL92 expression over the properties."""

from __future__ import annotations

from litemq.errors import BadFilter
from litemq.features.filters.sql_eval import SqlFilter
from litemq.features.filters.tag import TagFilter

__all__ = ["Filter", "SqlFilter", "TagFilter", "compile_filter"]

Filter = TagFilter | SqlFilter


def compile_filter(expression: str | None, kind: str | None = "TAG") -> Filter:
    """Return the filter that a subscription asks for; compile once, evaluate per message.

    Args:
        kind: RocketMQ's expression type, ``TAG`` (also when None or empty) or ``SQL92``.

    Raises:
        BadFilter: the expression or its kind is wrong; says where and what was expected.
    """
    if kind in (None, "", "TAG"):
        return TagFilter(expression)
    if kind == "SQL92":
        return SqlFilter(expression or "")
    raise BadFilter(f"the kind must be TAG or SQL92, not {kind[:32]!r}", expression or "", 1)
