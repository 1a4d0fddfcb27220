"""Files of broadcast offsets."""

from __future__ import annotations

from pathlib import Path

import pytest

from litemq.client.offset_files import OffsetFile
from litemq.client.routes import TopicQueue

QUEUE = TopicQueue("orders", "broker-a", 3)


def test_what_was_written_is_read(tmp_path: Path) -> None:
    file = OffsetFile(tmp_path / "offsets", "news", "one")
    file.read()
    assert file.offset(QUEUE) is None
    file.note(QUEUE, 17)
    file.write()
    again = OffsetFile(tmp_path / "offsets", "news", "one")
    again.read()
    assert again.offset(QUEUE) == 17
    assert [path.name for path in (tmp_path / "offsets").iterdir()] == ["news@one.json"]


def test_each_group_and_instance_has_its_own(tmp_path: Path) -> None:
    paths = {OffsetFile(tmp_path, *names).path for names in (("a", "b"), ("a/b", "c"), ("a%2fb", "c"), ("b", "a"))}
    assert len(paths) == 4
    assert all(path.parent == tmp_path for path in paths)


@pytest.mark.parametrize("text", ["", "[]", '{"orders": 3}', '{"orders": {"a": {"x": 1}}}'])
def test_a_file_that_cannot_be_read_counts_as_empty(
    tmp_path: Path, text: str, caplog: pytest.LogCaptureFixture
) -> None:
    file = OffsetFile(tmp_path, "news", "one")
    file.path.write_text(text)
    file.read()
    assert file.offset(QUEUE) is None
    assert "begins anew" in caplog.text


def test_a_crash_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = OffsetFile(tmp_path, "news", "one")
    file.note(QUEUE, 1)
    file.write()

    def fail(*_args: object) -> None:
        raise OSError("no power")

    monkeypatch.setattr(Path, "replace", fail)
    file.note(QUEUE, 2)
    with pytest.raises(OSError, match="no power"):
        file.write()
    monkeypatch.undo()
    file.read()
    assert file.offset(QUEUE) == 1
    assert len(list(tmp_path.iterdir())) == 1
