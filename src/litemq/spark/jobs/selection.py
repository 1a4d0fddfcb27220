"""Conditions in SQL over the columns of messages."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING

from litemq.spark.errors import BadOption

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def chosen(frame: DataFrame, where: str) -> DataFrame:
    """Return the rows that fit a condition; all without one.

    Raises:
        BadOption: it is no condition over these columns.
    """
    if not where:
        return frame
    from pyspark.errors import PySparkException

    try:
        return frame.where(where)
    except PySparkException as error:
        said = next((line.strip() for line in str(error).splitlines() if line.strip()), "")
        raise BadOption(f"--where {where!r} cannot be used: {said}; columns are: {', '.join(frame.columns)}") from error


def columns_in(where: str, names: Iterable[str]) -> list[str]:
    """Return the columns that a condition may look at: each that is a word of it, text in quotes included."""
    words = {word.lower() for word in re.findall(r"\w+", where)}
    return [name for name in names if name.lower() in words]
