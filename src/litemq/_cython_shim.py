"""A stand-in for the ``cython`` module where Cython is not installed.

A kernel (``_name_cy.py``) imports the real module when it is there, and this one otherwise:

    try:
        import cython  # the compiler looks for this exact import
    except ModuleNotFoundError:
        from litemq import _cython_shim as cython

Nothing here computes: decorators return the function, types can be named, subscripted and
sliced in annotations, ``cast`` returns its value unchanged.  So a kernel must mask an
integer itself wherever a C integer would wrap.  What has no meaning in plain Python
(``address``, pointers' contents) is missing on purpose.
"""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType
from typing import Any, TypeVar

_T = TypeVar("_T")

compiled = False


class _Type:
    """A C type's name: good for annotations, not for anything that runs."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return f"cython.{self.name}"

    def __getitem__(self, index: object) -> _Type:
        if isinstance(index, _Type):  # const[uchar]
            return _Type(f"{self.name}[{index.name}]")
        return _Type(f"{self.name}[…]")  # uchar[::1], uchar[32]

    def __call__(self, value: Any = 0) -> Any:
        """``const(uchar)`` and ``pointer(uchar)`` make a type; ``uint(x)`` is ``x``, as in ``cast``."""
        return self[value] if isinstance(value, _Type) else value


# The names that kernels may use, in the order of Cython's documentation.
char = _Type("char")
schar = _Type("schar")
uchar = _Type("uchar")
short = _Type("short")
ushort = _Type("ushort")
int = _Type("int")
uint = _Type("uint")
long = _Type("long")
ulong = _Type("ulong")
longlong = _Type("longlong")
ulonglong = _Type("ulonglong")
float = _Type("float")
double = _Type("double")
bint = _Type("bint")
size_t = _Type("size_t")
ssize_t = _Type("ssize_t")
Py_ssize_t = _Type("Py_ssize_t")
void = _Type("void")
p_char = _Type("p_char")
p_uchar = _Type("p_uchar")
p_longlong = _Type("p_longlong")
const = _Type("const")
pointer = _Type("pointer")


class _Nothing:
    """A decorator without effect that is also a ``with`` block without effect: ``nogil``."""

    def __call__(self, subject: Any = None) -> Any:
        # nogil(function), and nogil(True) as a decorator with an argument
        return subject if callable(subject) else self

    def __enter__(self) -> None:
        return None

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        return None


def _same(subject: _T) -> _T:
    return subject


def _with_arguments(*_values: object, **_named: object) -> Callable[[_T], _T]:
    return _same


cfunc = ccall = cclass = inline = final = no_gc = _same
nogil = _Nothing()

exceptval = locals = returns = freelist = _with_arguments
annotation_typing = boundscheck = wraparound = cdivision = initializedcheck = _with_arguments


def cast(_type: object, value: _T, *, typecheck: bool = False) -> _T:
    """Return ``value`` itself: nothing is masked or checked."""
    return value


def declare(_type: object = None, value: Any = None, **_variables: object) -> Any:
    """Return the value, if any: plain Python needs no declaration."""
    return value


def address(_value: object) -> Any:
    """Refuse: plain Python has no address of a variable."""
    raise TypeError("cython.address() has no meaning in the plain build; guard it with `if cython.compiled:`")
