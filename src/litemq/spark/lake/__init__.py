"""The lake: what topics held, kept as Parquet or Delta tables in a directory.

from litemq.spark import lake

lake.messages(spark, "litemq-lake", topics=["orders"]).groupBy("tags").count().show()
lake.topic_statistics(spark, "litemq-lake").where("topic = 'orders'").show()
lake.files("litemq-lake")  # for other readers than Spark
"""

from litemq.spark.lake.messages import files, messages
from litemq.spark.lake.statistics import group_statistics, topic_statistics

__all__ = ["files", "group_statistics", "messages", "topic_statistics"]
