"""The lake that a command works on: the directory that is named, else that of the settings."""

from __future__ import annotations

import os
from pathlib import Path


def lake_directory(given: Path | None) -> Path:
    """Return the directory of the lake; the setting is ``pipeline.lake``.

    Raises:
        BadStore: the settings are wrong.
    """
    if given is not None:
        return given
    from litemq.config import PipelineConfig
    from litemq.config_file import load

    return Path(load(environment=os.environ).section(PipelineConfig).lake).expanduser()
