"""What a caller gets wrong is named, and leaves nothing behind."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import cast

import pytest
from tests.unit.store.live_support import bodies, fill, open_store, topics

from litemq.errors import BadStore
from litemq.store.message_store import MessageStore

ODD = cast("str", None)
TEXT = cast("int", "0")
WRONG: dict[str, tuple[Callable[[MessageStore], object], str]] = {
    "topic of records": (lambda store: store.records(ODD, 0, 0), "topic must be str, not NoneType"),
    "queue of records": (lambda store: store.records("orders", TEXT, 0), "queue_id must be int, not str"),
    "bool as a queue": (lambda store: store.records("orders", False, 0), "queue_id must be int, not bool"),
    "offset of records": (lambda store: store.records("orders", 0, TEXT), "offset must be int, not str"),
    "count": (lambda store: store.records("orders", 0, 0, max_count=TEXT), "max_count must be int, not str"),
    "topic of a read": (lambda store: store.read(ODD, 0, 0), "topic must be str, not NoneType"),
    "offset of a read": (lambda store: store.read("orders", 0, TEXT), "offset must be int, not str"),
    "bytes of a read": (lambda store: store.read("orders", 0, 0, max_bytes=TEXT), "max_bytes must be int, not str"),
    "min offset": (lambda store: store.reader.min_offset(ODD, 0), "topic must be str, not NoneType"),
    "max offset": (lambda store: store.reader.max_offset("orders", TEXT), "queue_id must be int, not str"),
    "offset of a message": (lambda store: store.reader.message_at("orders", 0, TEXT), "offset must be int, not str"),
    "key": (lambda store: store.reader.by_key("orders", ODD), "key must be str, not NoneType"),
    "topic of a key": (lambda store: store.reader.by_key(ODD, "1"), "topic must be str, not NoneType"),
    "id": (lambda store: store.reader.by_id(ODD), "wanted must be str, not NoneType"),
    "new topic": (lambda store: store.put_topic(ODD), "topic must be str, not NoneType"),
    "deleted topic": (lambda store: store.delete_topic(ODD), "topic must be str, not NoneType"),
}


@pytest.mark.parametrize(("call", "text"), WRONG.values(), ids=WRONG)
def test_an_argument_of_a_wrong_type_is_named(
    tmp_path: Path, call: Callable[[MessageStore], object], text: str
) -> None:
    with open_store(tmp_path) as store:
        sent = fill(store, 3)
    with open_store(tmp_path) as store:  # anew: no queue is loaded
        end = store.appended_end
        with pytest.raises(TypeError, match=f"^{text}$"):
            call(store)
        assert store.appended_end == end
        assert topics(store) == {"orders"}
        assert bodies(store) == sent


def test_a_path_with_a_zero_byte_is_refused() -> None:
    with pytest.raises(BadStore, match="cannot be a path: it holds a zero byte"):
        MessageStore.open("a\0b")


@pytest.mark.parametrize("config", [{"flush": "sync"}, {}, "sync", 0])
def test_settings_come_as_a_store_config(tmp_path: Path, config: object) -> None:
    with pytest.raises(TypeError, match=f"^config must be a StoreConfig, not {type(config).__name__}$"):
        MessageStore.open(tmp_path / "store", config)  # type: ignore[arg-type]
    assert list(tmp_path.iterdir()) == []
