"""The lake: what topics held, kept as Parquet or Delta tables in a directory.

from litemq.spark import lake

lake.messages(spark, "litemq-lake", topics=["orders"]).groupBy("tags").count().show()
lake.files("litemq-lake")  # for DuckDB, pandas, Polars …
"""

from litemq.spark.lake.messages import files, messages

__all__ = ["files", "messages"]
