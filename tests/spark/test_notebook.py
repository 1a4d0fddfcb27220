"""The notebook in ``examples/`` runs from its first cell to its last, twice."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from litemq.testing import broker

pytestmark = pytest.mark.spark

NOTEBOOK = Path(__file__).parents[2] / "examples" / "notebook" / "query-your-queue.ipynb"


def test_the_notebook_runs(spark: Any, monkeypatch: pytest.MonkeyPatch) -> None:  # noqa: ANN401
    cells = json.loads(NOTEBOOK.read_text())["cells"]
    programs = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]
    with broker() as server:
        monkeypatch.setenv("LITEMQ_NAMESERVER", server.nameservers)
        for turn in (1, 2):
            names: dict[str, Any] = {}
            for program in programs:
                exec(compile(program, str(NOTEBOOK), "exec"), names)
            counts = {row["tags"]: row["orders"] for row in names["by_tag"].collect()}
            assert counts == {"created": 1000 * turn, "paid": 1000 * turn, "shipped": 1000 * turn}
            spark.catalog.dropTempView("orders")
            assert names["totals"].count() == 3  # the second time nothing is written again
