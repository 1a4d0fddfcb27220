"""LiteMQ's queues as Spark tables: ``spark.read.format("litemq")`` over store files.

    from litemq import spark as lm

    spark = lm.session()                       # or lm.register(your_session)
    orders = spark.read.format("litemq").option("path", "litemq-store").option("subscribe", "orders").load()

Needs the extra ``litemq[spark]`` and Java 17 or newer; nothing else of LiteMQ does.  Nothing heavy is imported until it
is used: Spark's Python workers import this package too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from litemq.spark.scan import scan
    from litemq.spark.session import enable, register, session

__all__ = ["enable", "register", "scan", "session"]

_HOMES = {"enable": "session", "register": "session", "session": "session", "scan": "scan"}


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    home = import_module(f"{__name__}.{_HOMES[name]}")
    # The function named like its module must win over it.
    globals()[name] = found = getattr(home, name)
    return found
