"""The page of the protocol tells the truth: who answers which request."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

from tests.support.broker import running

from litemq.clock import SystemClock
from litemq.config import NameserverConfig
from litemq.nameserver.kv import KeyValues
from litemq.nameserver.service import Service
from litemq.wire.remoting.codes import Ask

PAGE = (Path(__file__).resolve().parents[3] / "docs" / "reference" / "protocol.md").read_text()
ROW = re.compile(r"^\| (\d+) \| ([A-Z0-9_]+) \| (must|should|may) \| (yes|no|asks) \|", re.MULTILINE)


def _rows(part: str) -> dict[str, set[int]]:
    """Return status → codes."""
    found: dict[str, set[int]] = {"yes": set(), "no": set(), "asks": set()}
    for code, name, _, status in ROW.findall(part):
        assert Ask(int(code)).name == name
        found[status].add(int(code))
    return found


def test_the_page_has_every_request_that_a_broker_answers(tmp_path: Path) -> None:
    async def answered() -> set[int]:
        async with running(tmp_path) as (broker, _):
            return {int(code) for code in broker.server.handlers}

    told = _rows(PAGE.partition("\n## Name server\n")[0])
    assert told["yes"] == asyncio.run(answered())
    assert not told["asks"] & told["yes"]


def test_the_page_has_every_request_that_a_name_server_answers() -> None:
    told = _rows(PAGE.partition("\n## Name server\n")[2])
    assert told["yes"] == {int(code) for code in Service(NameserverConfig(), KeyValues(None), SystemClock()).handlers()}


def test_the_page_has_every_code() -> None:
    told = _rows(PAGE)
    assert {code for codes in told.values() for code in codes} == {int(code) for code in Ask}
