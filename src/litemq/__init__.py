"""LiteMQ: a message queue whose log every RocketMQ client and Spark can read.

Public names are loaded when they are first used, so that ``import litemq`` stays cheap.  ``Message`` is not among
them yet: here it will be what an application sends and receives.  The store's own is ``litemq.types.Message``.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from litemq import _plain

_plain.install()  # before any kernel is imported: LITEMQ_PURE=1 asks for the plain twins

from litemq._version import VERSION  # noqa: E402 - the hook above must stand first

if TYPE_CHECKING:
    from litemq.config import StoreConfig
    from litemq.store.message_store import MessageStore

__version__ = VERSION

__all__ = ["MessageStore", "StoreConfig", "__version__"]

_HOMES = {
    "MessageStore": "litemq.store.message_store",
    "StoreConfig": "litemq.config",
}


def __getattr__(name: str) -> object:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'litemq' has no attribute {name!r}")
    return getattr(importlib.import_module(home), name)
