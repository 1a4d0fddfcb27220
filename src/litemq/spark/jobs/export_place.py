"""Where an export goes: a directory of parts or one file, and the manifest that says that all of it is there.

    DIR/_writing/_plan.json, parts          while it is written
    DIR/part-00000.parquet …                moved there when all are written
    DIR/_manifest.json                      last

    FILE, FILE.manifest.json                of one file; .FILE.writing/ while it is written

Whatever stops it, an export without its manifest is none: the next run removes what is there of the same plan, and
begins anew.  Of another plan it touches nothing.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from litemq.errors import InvalidRequest
from litemq.spark.jobs.export_rows import SUFFIXES, Form
from litemq.spark.jobs.slices import write_whole

MANIFEST: Final = "_manifest.json"
WRITING: Final = "_writing"
PLAN: Final = "_plan.json"
VERSION: Final = 1


@dataclass(frozen=True, slots=True)
class Part:
    """One file of an export."""

    name: str
    rows: int
    bytes: int
    sha256: str


@dataclass(frozen=True, slots=True)
class Place:
    """A directory, or one file."""

    path: Path
    is_file: bool

    @property
    def manifest(self) -> Path:
        """Return where the manifest is."""
        return manifest_of(self.path) if self.is_file else self.path / MANIFEST

    @property
    def writing(self) -> Path:
        """Return where parts are until all of them are written."""
        return self.path.with_name(f".{self.path.name}.writing") if self.is_file else self.path / WRITING

    def final(self, number: int, form: Form) -> Path:
        """Return where a part goes."""
        return self.path if self.is_file else self.path / f"part-{number:05d}.{form}"

    def finished(self, plan: Mapping[str, Any]) -> dict[str, Any] | None:
        """Return the manifest of this very export; None when it is not there.

        Raises:
            InvalidRequest: something else is there.
        """
        found = read_manifest(self.manifest)
        if found is not None:
            _check_same(self.path, found.get("plan"), plan, "a finished export")
            check_files(self.manifest, found)
            return found
        claim = _read(self.writing / PLAN)
        if claim is not None:
            _check_same(self.path, claim, plan, "an unfinished export")
        elif self._holds_something():
            raise InvalidRequest(f"{self.path} is there already and no export of LiteMQ; choose a new name")
        return None

    def _holds_something(self) -> bool:
        if self.is_file:
            return self.path.exists()
        if self.path.exists() and not self.path.is_dir():
            return True
        return self.path.is_dir() and any(one.name != WRITING for one in self.path.iterdir())

    def begin(self, plan: Mapping[str, Any]) -> None:
        """Remove what an earlier run of this plan left, and say whose place it is."""
        if self.is_file:
            self.path.unlink(missing_ok=True)
        elif self.path.is_dir():
            for part in self.path.glob("part-*"):
                part.unlink()
        if self.writing.exists():
            for one in self.writing.iterdir():
                if one.name != PLAN:
                    one.unlink()
        self.writing.mkdir(parents=True, exist_ok=True)
        write_whole(self.writing / PLAN, json.dumps(plan, ensure_ascii=False))

    def end(self, parts: Iterable[Part], manifest: Mapping[str, Any], form: Form) -> dict[str, Any]:
        """Move the parts to where they belong, and write the manifest."""
        moved = []
        for number, part in enumerate(parts):
            final = self.final(number, form)
            (self.writing / part.name).replace(final)
            moved.append({**asdict(part), "name": final.name})
        found = {"version": VERSION, **manifest, "files": moved}
        write_whole(self.manifest, json.dumps(found, ensure_ascii=False, indent=2))
        shutil.rmtree(self.writing)
        return found


def place_of(path: Path, form: Form | None) -> tuple[Place, Form]:
    """Return where an export goes, and as what: a name that ends in .parquet, .jsonl or .csv is a file.

    Raises:
        InvalidRequest: the name says another form than was asked for.
    """
    by_name = SUFFIXES.get(path.suffix.lower())
    if by_name is None or path.is_dir():
        return Place(path, is_file=False), form or "parquet"
    if form not in (None, by_name):
        raise InvalidRequest(f"{path} is named like {by_name}, and --format says {form}; change one of them")
    return Place(path, is_file=True), by_name


def manifest_of(file: Path) -> Path:
    """Return where the manifest of an export of one file is."""
    return file.with_name(file.name + ".manifest.json")


def read_manifest(path: Path) -> dict[str, Any] | None:
    """Return a manifest; None when there is none.

    Raises:
        InvalidRequest: it cannot be read, or is of another version.
    """
    found = _read(path)
    if found is not None and found.get("version") != VERSION:
        raise InvalidRequest(
            f"{path} is no manifest of version {VERSION}; export anew, or use the LiteMQ that wrote it"
        )
    return found


def check_files(manifest: Path, found: Mapping[str, Any]) -> None:
    """Refuse an export of which a file is missing or has another size.

    Raises:
        InvalidRequest: the text names it.
    """
    for part in found["files"]:
        path = manifest.parent / part["name"]
        size = path.stat().st_size if path.is_file() else None
        if size != part["bytes"]:
            there = "missing" if size is None else f"{size} bytes long"
            raise InvalidRequest(
                f"{path} is {there}, its manifest says {part['bytes']} bytes; bring it back, or export anew elsewhere"
            )


def _check_same(path: Path, there: object, plan: Mapping[str, Any], what: str) -> None:
    if there == plan:
        return
    differs = ""
    if isinstance(there, dict):
        names = [name for name in plan if there.get(name) != plan[name]]
        differs = "; it differs in " + ", ".join(f"{name}: {there.get(name)!r} there" for name in names)
    raise InvalidRequest(f"{path} holds {what} of something else{differs}; choose a new name")


def _read(path: Path) -> dict[str, Any] | None:
    try:
        found = json.loads(path.read_text())
    except FileNotFoundError:
        return None
    except NotADirectoryError:
        return None
    except ValueError as error:
        raise InvalidRequest(f"{path} cannot be read: {error}; remove it to begin anew") from error
    if not isinstance(found, dict):
        raise InvalidRequest(f"{path} holds no object; remove it to begin anew")
    return found
