"""The crash runs bite: leave out any one sync or zeroing of the store, and one of them fails."""

from __future__ import annotations

import logging
from functools import partial

import pytest
from tests.crash.campaign import pool
from tests.crash.mutants import SAFEGUARDS, catch, find_sites

pytestmark = pytest.mark.crash

RUNS = 1_500

REDUNDANT = {
    ("opening", "_Opening.run", "make_dirs"): "the sync_dir behind the mark of a running store covers both names",
    ("opening", "_Opening._checkpoint", "make_dirs"): "a folder that is lost is made again, and filled from the log",
    (
        "running",
        "RunningMark.__init__",
        "truncate",
    ): "counts after a flush that failed, see tests/unit/store/test_running.py",
    ("checkpoint", "write", "sync_dir"): "an older checkpoint costs a longer scan, nothing else",
}
"""Safeguards that another one covers, with the reason."""


@pytest.mark.timeout(1200)
def test_every_sync_and_every_zeroing_is_needed(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL)
    sites = [site for site in find_sites(150) if (site.module, site.function, site.kind) not in REDUNDANT]
    with pool() as workers:
        caught = dict(zip(sites, workers.map(partial(catch, runs=RUNS), sites), strict=True))
    survivors = [str(site) for site, error in caught.items() if error is None]
    assert not survivors, "nothing notices when these are left out; are they needed?"
    assert {site.kind for site in sites} == SAFEGUARDS | {"make_dirs"}, "the runs do not reach every kind"
