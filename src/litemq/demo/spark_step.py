"""The demo's last look: what Spark says of the store, when Spark is installed."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Final

from litemq.demo import orders
from litemq.demo.processes import Failed, LeftOut
from litemq.demo.stage import LIMIT_S, Demo
from litemq.errors import LiteMQError

_QUERY: Final = (
    "SELECT topic, count(*) AS messages, count(DISTINCT queue_id) AS queues, sum(length(body)) AS bytes "
    "FROM messages GROUP BY topic ORDER BY messages DESC, topic"
)


def summarise(demo: Demo) -> str:
    """Ask Spark how many messages the store has of each topic."""
    _check_installed()
    demo.screen.note(f'$ litemq sql --path DIR/store "{_QUERY}"')
    command = [sys.executable, "-m", "litemq", "sql", "--path", str(demo.store), "--json", _QUERY]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=LIMIT_S)
    if done.returncode:
        raise Failed(done.stderr.strip() or f"litemq sql ended with status {done.returncode}")
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    for row in rows:
        demo.screen.note(f"  {row['topic']:<40} {row['messages']:>8,} messages {row['bytes']:>12,} bytes")
    counts = {row["topic"]: row["messages"] for row in rows}
    if counts.get(orders.TOPIC, 0) < demo.messages:  # more: a send that was not answered may be in the log twice
        raise Failed(f"Spark counts {counts.get(orders.TOPIC, 0):,} of {demo.messages:,} messages")
    return f"{sum(counts.values()):,} messages in {len(counts)} topics, counted by Spark"


def _check_installed() -> None:
    from litemq.spark.session import check_java, check_spark

    try:
        check_spark()
        check_java()
    except LiteMQError as error:
        raise LeftOut(f"{error}; in a checkout: make spark") from error
