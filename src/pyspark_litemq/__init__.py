"""Found by Spark by its name (``pyspark_…``): makes ``format("litemq")`` known without a call of ``register``.

Spark imports it whenever it looks up any data source, so it must stay as small as this.
"""

from __future__ import annotations

from litemq.spark.datasource import LiteMQDataSource as DefaultSource

__all__ = ["DefaultSource"]
