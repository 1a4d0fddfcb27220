"""Every public name of the SDK is documented, with an example that runs.

The examples run as they stand against a broker of ``litemq.testing``, which LITEMQ_NAMESERVER names, with the exported
names at hand; the group ``billing`` is there.  doctest's ``...`` stands for anything that they print.
"""

from __future__ import annotations

import doctest
import inspect
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

import pytest
from scripts.sdk_reference import returned_by

import litemq
from litemq import aio, outbox, telemetry, testing
from litemq.client.hooks import Hooks
from litemq.testing import broker

FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
EXPORTS = {name: getattr(litemq, name) for name in litemq.__all__}
NOT_OF_THE_SDK = {"MessageStore", "StoreConfig", "__version__"}
"""What works on files; its pages are docs/tutorial/first-store.md and docs/reference/store-config.md."""


@dataclass(frozen=True)
class Documented:
    """A public name and what is said of it."""

    name: str
    text: str
    needs_example: bool
    """A property or an awaited method is shown in use by what stands beside it."""
    names: Mapping[str, object] = field(default_factory=dict)
    """At hand in its examples, beside the exported ones."""


def documented() -> Iterator[Documented]:
    """Yield every public module, class and method of the SDK."""
    yield Documented("litemq.testing", inspect.getdoc(testing) or "", needs_example=True)
    for name in sorted(EXPORTS.keys() - NOT_OF_THE_SDK):
        yield from of_object(f"litemq.{name}", EXPORTS[name], are_examples_needed=True)
    for name in aio.__all__:
        found = getattr(aio, name)
        if found is not EXPORTS[name]:
            yield from of_object(f"litemq.aio.{name}", found, are_examples_needed=False)
    for name in testing.__all__:
        yield from of_object(f"litemq.testing.{name}", getattr(testing, name), are_examples_needed=True)
    for found in returned_by(aio.Admin):
        yield from of_object(f"Admin's {found.__name__}", found, are_examples_needed=False)
    yield Documented("litemq.outbox", inspect.getdoc(outbox) or "", needs_example=True)
    for kind in (outbox.Outbox, outbox.OutboxRelay):
        yield from of_object(f"litemq.outbox.{kind.__name__}", kind, are_examples_needed=True)
    yield from of_object("litemq.outbox.OutboxCounters", outbox.OutboxCounters, are_examples_needed=False)
    yield Documented("litemq.telemetry", inspect.getdoc(telemetry) or "", needs_example=True)
    yield from of_object("litemq.telemetry.OpenTelemetryHooks", telemetry.OpenTelemetryHooks, are_examples_needed=True)
    yield from of_object("Hooks", Hooks, are_examples_needed=False)


def of_object(name: str, found: object, *, are_examples_needed: bool) -> Iterator[Documented]:
    """Yield what a name stands for and, of a class, its public methods, also those from below."""
    text = getattr(found, "__doc__", "") or ""  # not inspect.getdoc: an inherited text tells of another name
    own = {found.__name__: found} if isinstance(found, type) else {}
    yield Documented(name, text, needs_example=are_examples_needed, names=own)
    if not isinstance(found, type):
        return
    seen = set()
    for kind in found.__mro__:
        if not kind.__module__.startswith("litemq."):
            continue
        for member, value in vars(kind).items():
            if member.startswith("_") or member in seen or not is_member(value):
                continue
            seen.add(member)
            text = inspect.getdoc(getattr(found, member)) or inspect.getdoc(value) or ""
            needs_example = are_examples_needed and not inspect.isdatadescriptor(value)
            yield Documented(f"{name}.{member}", text, needs_example=needs_example, names=own)


def is_member(value: object) -> bool:
    """Return whether something in a class is a method or a property, not a plain attribute or a slot of a value."""
    return callable(value) or isinstance(value, property | staticmethod | classmethod)


ALL = list(documented())


@pytest.fixture(scope="module", autouse=True)
def _place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """A broker that knows the group of the examples, and a directory for their files."""
    with broker() as running, pytest.MonkeyPatch.context() as patch:
        patch.setenv("LITEMQ_NAMESERVER", running.nameservers)
        patch.chdir(tmp_path_factory.mktemp("examples"))
        with litemq.Admin() as admin:
            admin.create_group("billing")
        yield


BLOCKING = [one for one in ALL if ">>>" in one.text and not one.name.startswith("litemq.aio.")]
"""Awaited methods share the texts of the blocking ones."""


@pytest.mark.parametrize("one", BLOCKING, ids=lambda one: one.name)
def test_the_examples_of_a_name_run(one: Documented) -> None:
    assert (shown := failures(one)) == [], "".join(shown)


def failures(one: Documented) -> list[str]:
    """Run the examples of a text; return what doctest complains of."""
    test = doctest.DocTestParser().get_doctest(
        inspect.cleandoc(one.text), {"litemq": litemq, **EXPORTS, **one.names}, one.name, None, None
    )
    shown: list[str] = []
    keep: Callable[[str], object] = shown.append
    doctest.DocTestRunner(optionflags=FLAGS, verbose=False).run(test, out=keep)
    return shown


def test_every_public_name_has_a_docstring() -> None:
    assert [one.name for one in ALL if not one.text.strip()] == []


def test_every_class_and_method_has_an_example() -> None:
    assert [one.name for one in ALL if one.needs_example and ">>>" not in one.text] == []


def test_an_example_that_is_wrong_is_noticed() -> None:
    wrong = Documented("one", ">>> 1 + 1\n3\n", needs_example=True)
    assert "Expected:\n    3\nGot:\n    2\n" in "".join(failures(wrong))
