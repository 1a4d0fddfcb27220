"""``python -m litemq`` is the command ``litemq``."""

from __future__ import annotations

from litemq.cli.main import main

main()
