"""Filters of subscriptions, each compiled once."""

from __future__ import annotations

from collections import OrderedDict

from litemq.features.filters import Filter, compile_filter

_KEPT = 4096


class Filters:
    """Compiled filters by their expressions; the least recently used one goes first."""

    def __init__(self) -> None:
        self._compiled: OrderedDict[tuple[str, str], Filter] = OrderedDict()

    def of(self, expression: str, kind: str) -> Filter:
        """Return the filter of an expression (``TAG`` or ``SQL92``).

        Raises:
            BadFilter: it cannot be read; the text says where.
        """
        key = (expression, kind)
        found = self._compiled.get(key)
        if found is None:
            found = self._compiled[key] = compile_filter(expression, kind)
            if len(self._compiled) > _KEPT:
                self._compiled.popitem(last=False)
        else:
            self._compiled.move_to_end(key)
        return found
