"""Where an export goes: whose place it is, what is left of a run that was stopped, and when it is finished."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from litemq.errors import InvalidRequest
from litemq.spark.jobs.export_place import Part, Place, place_of
from litemq.spark.jobs.import_ import input_of

PLAN = {"source": "h:1", "where": "", "format": "jsonl"}


def written(place: Place, *texts: str) -> list[Part]:
    for number, text in enumerate(texts):
        (place.writing / f"{number}.jsonl").write_text(text)
    return [Part(f"{number}.jsonl", 1, len(text), "") for number, text in enumerate(texts)]


@pytest.mark.parametrize(
    ("name", "given", "form", "is_file"),
    [
        ("x", None, "parquet", False),
        ("x", "csv", "csv", False),
        ("x.csv", None, "csv", True),
        ("x.ndjson", "jsonl", "jsonl", True),
        ("x.d", None, "parquet", False),
    ],
)
def test_a_name_says_what_it_is(tmp_path: Path, name: str, given: object, form: str, is_file: bool) -> None:
    assert place_of(tmp_path / name, given) == (Place(tmp_path / name, is_file), form)  # type: ignore[arg-type]


def test_a_name_that_says_something_else(tmp_path: Path) -> None:
    with pytest.raises(InvalidRequest, match="is named like csv, and --format says parquet"):
        place_of(tmp_path / "x.csv", "parquet")
    (tmp_path / "d.csv").mkdir()
    assert place_of(tmp_path / "d.csv", None) == (Place(tmp_path / "d.csv", is_file=False), "parquet")


@pytest.mark.parametrize("is_file", [True, False])
def test_it_is_finished_with_its_manifest_only(tmp_path: Path, is_file: bool) -> None:
    place = Place(tmp_path / ("out.jsonl" if is_file else "out"), is_file)
    assert place.finished(PLAN) is None
    place.begin(PLAN)
    written(place, "a\n", "b\n")
    assert place.finished(PLAN) is None
    with pytest.raises(InvalidRequest, match=r"an unfinished export of something else; it differs in where: '' there"):
        place.finished({**PLAN, "where": "1 = 1"})
    (place.path if is_file else place.path / "part-00007.jsonl").write_text("of a run that was killed while it moved")
    assert place.finished(PLAN) is None
    place.begin(PLAN)  # what it left is gone
    assert [one.name for one in place.writing.iterdir()] == ["_plan.json"]
    parts = written(place, *(["c\n"] if is_file else ["c\n", "d\n"]))
    place.end(parts, {"plan": PLAN, "rows": len(parts)}, "jsonl")
    found = place.finished(PLAN)
    assert found is not None
    there = sorted(one.name for one in (tmp_path if is_file else place.path).iterdir())
    assert there == (
        ["out.jsonl", "out.jsonl.manifest.json"]
        if is_file
        else ["_manifest.json", "part-00000.jsonl", "part-00001.jsonl"]
    )
    assert input_of(place.path, None).files == tuple(str(place.final(n, "jsonl")) for n in range(len(parts)))
    place.final(0, "jsonl").unlink()
    with pytest.raises(InvalidRequest, match="is missing, its manifest says 2 bytes"):
        place.finished(PLAN)


@pytest.mark.parametrize("is_file", [True, False])
def test_what_is_somebody_elses_is_left_alone(tmp_path: Path, is_file: bool) -> None:
    place = Place(tmp_path / ("out.csv" if is_file else "out"), is_file)
    if is_file:
        place.path.write_text("mine")
    else:
        place.path.mkdir()
        assert place.finished(PLAN) is None  # an empty directory is nobody's
        (place.path / "mine").write_text("")
    with pytest.raises(InvalidRequest, match="is there already and no export of LiteMQ"):
        place.finished(PLAN)


def test_an_export_that_is_not_finished_is_no_input(tmp_path: Path) -> None:
    place = Place(tmp_path / "out", is_file=False)
    place.begin(PLAN)
    with pytest.raises(InvalidRequest, match="is an export that is not finished"):
        input_of(place.path, None)
    with pytest.raises(InvalidRequest, match="is not there"):
        input_of(tmp_path / "nothing", None)


def test_a_manifest_of_another_version(tmp_path: Path) -> None:
    (tmp_path / "_manifest.json").write_text(json.dumps({"version": 99}))
    with pytest.raises(InvalidRequest, match="no manifest of version 1"):
        input_of(tmp_path, None)
    (tmp_path / "_manifest.json").write_text("{")
    with pytest.raises(InvalidRequest, match="cannot be read"):
        input_of(tmp_path, None)


def test_a_directory_of_foreign_files(tmp_path: Path) -> None:
    (tmp_path / "dt=1").mkdir()
    for name in ("dt=1/b.csv", "a.csv", "_SUCCESS", ".x.csv", "README"):
        (tmp_path / name).write_text("body\n")
    found = input_of(tmp_path, None)
    assert (found.form, [Path(one).name for one in found.files]) == ("csv", ["a.csv", "b.csv"])
    (tmp_path / "c.jsonl").write_text("")
    with pytest.raises(InvalidRequest, match="files of several forms; say which form it is: --format"):
        input_of(tmp_path, None)
    assert [Path(one).name for one in input_of(tmp_path, "jsonl").files] == ["README", "c.jsonl"]
    assert input_of(tmp_path / "README", "csv").files == (str(tmp_path / "README"),)
    with pytest.raises(InvalidRequest, match="no file that ends in"):
        input_of(tmp_path / "README", None)
