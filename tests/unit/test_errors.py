"""The page of errors and the module's own drawing have every error, under its parent."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

from litemq import errors

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "reference" / "errors.md").read_text()
PARENTS = {
    name: found.__base__.__name__
    for name, found in vars(errors).items()
    if inspect.isclass(found) and issubclass(found, errors.LiteMQError) and found.__base__ is not None
}


def drawn(text: str) -> dict[str, str]:
    """Return the parent of each error in a drawing."""
    path = {0: "Exception"}
    answer = {}
    for marks, name in re.findall(r"^([│├└─ ]*)([A-Z]\w+)", text, re.MULTILINE):
        depth = len(marks) // 4
        path[depth + 1] = name
        answer[name] = path[depth]
    return answer


def test_the_page_draws_every_error_under_its_parent() -> None:
    assert drawn(PAGE.partition("```text\n")[2].partition("```")[0]) == PARENTS


def test_the_page_says_of_every_error_what_to_do() -> None:
    parents = set(PARENTS.values()) - {"InvalidRequest"}
    assert set(re.findall(r"^\| `(\w+)` \|", PAGE, re.MULTILINE)) >= PARENTS.keys() - parents


def test_the_module_draws_every_error_that_is_raised() -> None:
    tree = (errors.__doc__ or "").partition("\n\n")[2]
    assert drawn(tree).keys() == PARENTS.keys() - {"DamagedRecord"}  # nobody raises it
