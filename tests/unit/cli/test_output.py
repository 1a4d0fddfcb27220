"""Text for people: sizes, times, tables, bars."""

from __future__ import annotations

import io
import re
import sys
from pathlib import Path

import click
import pytest
from tests.unit.store.walk_support import FIXTURES

from litemq.cli import output
from litemq.cli.time_range import parse_range, parse_time
from litemq.store.log_walk import open_log
from litemq.store.verify import verify


class Terminal(io.TextIOWrapper):
    """Text that says it is a terminal."""

    def __init__(self) -> None:
        super().__init__(io.BytesIO(), encoding="utf-8")

    def isatty(self) -> bool:
        return True

    def shown(self) -> str:
        self.flush()
        raw = self.buffer
        assert isinstance(raw, io.BytesIO)
        return raw.getvalue().decode()


@pytest.mark.parametrize(
    ("size", "text"),
    [(0, "0 B"), (1023, "1023 B"), (1536, "1.5 KiB"), (1 << 30, "1.0 GiB"), (1 << 60, "1048576.0 TiB")],
)
def test_sizes(size: int, text: str) -> None:
    assert output.size_text(size) == text


@pytest.mark.parametrize(
    ("ms", "text"),
    [
        (None, "-"),
        (0, "1970-01-01T00:00:00.000Z"),
        (-1, "1969-12-31T23:59:59.999Z"),
        (1_700_000_000_123, "2023-11-14T22:13:20.123Z"),
        (1 << 62, str(1 << 62)),
        ((1 << 64) - 1, str((1 << 64) - 1)),
    ],
)
def test_times(ms: int | None, text: str) -> None:
    assert output.time_text(ms) == text


@pytest.mark.parametrize(
    ("text", "ms"),
    [
        ("", None),
        (" 5 ", 5),
        ("-5", -5),
        ("2024-01-01", 1_704_067_200_000),
        ("2024-01-01T00:00:00.5Z", 1_704_067_200_500),
        ("2024-01-01T02:00+02:00", 1_704_067_200_000),
        ("20240101T000000Z", 1_704_067_200_000),
        ("1969-12-31T23:59:59.999", -1),
    ],
)
def test_times_that_are_asked_for(text: str, ms: int | None) -> None:
    assert parse_time(text) == ms


def test_ranges() -> None:
    assert parse_range("1..2") == (1, 2)
    assert parse_range("..") == (None, None)
    for text in ("", "1", "1-2", "x..y", "1...2", "99999999999999999999..", "9..3", "2024-01-02..2024-01-01"):
        with pytest.raises(click.UsageError):
            parse_range(text)


class TestTable:
    ROWS = (("a[b]", 1), ("name\n", 22))

    def test_aligned_text(self, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
        output.write_table(("topic", "queue"), self.ROWS)
        output.flush()
        assert capfdbinary.readouterr().out.decode().splitlines() == [
            "topic     queue",
            "a[b]          1",
            "name\\x0a     22",
        ]

    def test_drawn_on_a_terminal(self, monkeypatch: pytest.MonkeyPatch) -> None:
        terminal = Terminal()
        monkeypatch.setattr(sys, "stdout", terminal)
        output.write_table(("topic", "queue"), self.ROWS)
        assert "a[b]" in terminal.shown()
        assert "name\\x0a" in terminal.shown()


class TestProgress:
    def test_silent_without_a_terminal(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(sys, "stderr", io.StringIO())
        with output.progress("verify") as on_batch:
            assert on_batch is None

    def test_a_bar_on_a_terminal(self, monkeypatch: pytest.MonkeyPatch) -> None:
        terminal = Terminal()
        monkeypatch.setattr(sys, "stderr", terminal)
        monkeypatch.setenv("TERM", "xterm")
        with output.progress("looking") as on_batch:
            assert on_batch is not None
            verify(FIXTURES / "litemq" / "store", on_batch=on_batch)
        assert "looking" in terminal.shown()

    def test_none_among_records_that_go_to_a_terminal_too(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(sys, "stderr", Terminal())
        with output.progress("dump", is_among_records=True) as on_batch:
            assert on_batch is not None
        monkeypatch.setattr(sys, "stdout", Terminal())
        with output.progress("dump", is_among_records=True) as on_batch:
            assert on_batch is None

    def test_it_ends_full_and_warnings_stand_above_it(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        data = (FIXTURES / "litemq" / "store" / "commitlog" / f"{0:020d}").read_bytes()
        with (tmp_path / f"{0:020d}").open("wb") as file:
            file.write(data)
            file.truncate(1 << 30)
        terminal = Terminal()
        monkeypatch.setattr(sys, "stderr", terminal)
        monkeypatch.setenv("TERM", "xterm")
        monkeypatch.setenv("COLUMNS", "60")
        with output.progress("looking") as on_batch:
            verify(tmp_path, on_batch=on_batch)
            output.warn("[b]something[/b] " + "long " * 20 + "end")
        shown = _plain_text(terminal.shown())
        assert "\nlitemq: warning: [b]something[/b] " + "long " * 20 + "end\n" in shown
        last = re.findall(r"([0-9.]+)/([0-9.]+) \wB", shown)[-1]
        assert last[0] == last[1]
        output.warn("later")
        assert terminal.shown().endswith("litemq: warning: later\n")

    def test_bytes_before_each_segment(self) -> None:
        before: dict[tuple[int, str], int] = {}
        total = output._measure(open_log(FIXTURES / "litemq" / "store"), before)
        assert total == 3600
        assert list(before.values()) == [0, 1200, 2400]


def test_text_without_bytes_below_it(monkeypatch: pytest.MonkeyPatch) -> None:
    shown = io.StringIO()
    monkeypatch.setattr(sys, "stdout", shown)
    output.write_json({"path": str(Path("caf\udce9"))})
    assert shown.getvalue() == '{"path": "caf\\udce9"}\n'


def _plain_text(shown: str) -> str:
    """Return what a terminal was told to show, without colours; a line that is erased is one of its own."""
    return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", re.sub(r"\r(?:\x1b\[1A)?\x1b\[2K", "\n", shown))


@pytest.mark.parametrize("stream", ["stdout", "stderr"])
def test_a_closed_pipe_is_one_error(stream: str, monkeypatch: pytest.MonkeyPatch) -> None:
    class Closed(io.StringIO):
        def write(self, _: str) -> int:
            raise BrokenPipeError(32, "Broken pipe")

        def flush(self) -> None:
            raise BrokenPipeError(32, "Broken pipe")

    monkeypatch.setattr(sys, stream, Closed())
    with pytest.raises(output.PipeClosed):
        output.write_line("x") if stream == "stdout" else output.warn("x")
    if stream == "stdout":
        with pytest.raises(output.PipeClosed):
            output.flush()
