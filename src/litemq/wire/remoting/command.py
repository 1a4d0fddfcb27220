"""Requests and responses of the remoting protocol, one object each: the path for all that is not hot.

A frame is a 4-byte length, a 4-byte word (header codec, header length), the header and the body:

    codec 0   JSON: {"code":105,"extFields":{"topic":"T1"},"flag":0,"language":"JAVA","opaque":7,"version":479}
    codec 1   binary: code i16, language u8, version i16, opaque i32, flag i32,
              remark (i32 length), ext (i32 length: key i16 length, value i32 length, repeated)

The plain send and the plain pull never come here: see ``_requests_cy`` and ``_answers_cy``.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping
from dataclasses import dataclass, field

from litemq.errors import BadFrame
from litemq.wire.remoting._entries_cy import entries
from litemq.wire.remoting.codes import BINARY, CUT, FLAG_ONEWAY, FLAG_RESPONSE, JSON, LANGUAGES, MAX_FRAME_SIZE, VERSION

_BINARY_HEAD = struct.Struct(
    ">h"  # code
    "B"  # language
    "h"  # version
    "i"  # opaque
    "i"  # flag
    "i"  # length of the remark
)
_TO_JSON = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False).encode
"""``json.dumps`` makes an encoder for each call."""
_FROM_JSON = json.JSONDecoder().decode
_LENGTH = struct.Struct(">i")
_KEY_LENGTH = struct.Struct(">h")
_WORDS = struct.Struct(">II")
_INT32 = (-(1 << 31), (1 << 31) - 1)


@dataclass(slots=True)
class Request:
    """What a peer asks; ``ext`` holds texts only, whatever the header's codec."""

    code: int
    ext: dict[str, str] = field(default_factory=dict)
    body: bytes = b""
    opaque: int = 0
    flag: int = 0
    version: int = VERSION
    language: str = "PYTHON"
    remark: str | None = None
    codec: int = JSON

    @property
    def is_oneway(self) -> bool:
        """Return whether nobody waits for an answer."""
        return bool(self.flag & FLAG_ONEWAY)


@dataclass(slots=True)
class Response:
    """An answer; its frame echoes the request's opaque and codec."""

    code: int = 0
    ext: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""
    remark: str | None = None
    opaque: int = 0
    version: int = VERSION


def encode_request(request: Request) -> bytes:
    """Return the frame of a request."""
    return _frame(
        request.codec,
        request.code,
        LANGUAGES.index(request.language) if request.language in LANGUAGES else LANGUAGES.index("OTHER"),
        request.version,
        request.opaque,
        request.flag & ~FLAG_RESPONSE,
        request.remark,
        request.ext,
        request.body,
    )


def encode_response(response: Response, *, opaque: int, codec: int) -> bytes:
    """Return the frame of an answer to the request with this ``opaque``, in its codec."""
    return _frame(
        codec,
        response.code,
        LANGUAGES.index("PYTHON"),
        response.version,
        opaque,
        FLAG_RESPONSE,
        response.remark,
        response.ext,
        response.body,
    )


def _frame(
    codec: int,
    code: int,
    language: int,
    version: int,
    opaque: int,
    flag: int,
    remark: str | None,
    ext: Mapping[str, str],
    body: bytes,
) -> bytes:
    if codec == BINARY:
        header = _binary_header(code, language, version, opaque, flag, remark, ext)
    else:
        header = _json_header(code, language, version, opaque, flag, remark, ext)
    return b"".join((_WORDS.pack(4 + len(header) + len(body), codec << 24 | len(header)), header, body))


def _json_header(
    code: int, language: int, version: int, opaque: int, flag: int, remark: str | None, ext: Mapping[str, str]
) -> bytes:
    header: dict[str, object] = {
        "code": code,
        "extFields": dict(ext),
        "flag": flag,
        "language": LANGUAGES[language],
        "opaque": opaque,
        "serializeTypeCurrentRPC": "JSON",
        "version": version,
    }
    if remark is not None:
        header["remark"] = remark
    return _TO_JSON(header).encode("utf-8", "replace")


def _binary_header(
    code: int, language: int, version: int, opaque: int, flag: int, remark: str | None, ext: Mapping[str, str]
) -> bytes:
    text = (remark or "").encode("utf-8", "replace")
    entries = []
    for name, value in ext.items():
        key, data = name.encode("utf-8", "replace"), value.encode("utf-8", "replace")
        entries += [_KEY_LENGTH.pack(len(key)), key, _LENGTH.pack(len(data)), data]
    packed = b"".join(entries)
    head = _BINARY_HEAD.pack(_int16(code), language, version, opaque, flag, len(text))
    return b"".join((head, text, _LENGTH.pack(len(packed)), packed))


def _int16(code: int) -> int:
    """Return the signed number with the low 16 bits of ``code``, as every sender of binary headers cuts it."""
    return ((code & 0xFFFF) ^ 0x8000) - 0x8000


# -- decoding -----------------------------------------------------------------------------------


def decode(frame: bytes | memoryview) -> Request | Response:
    """Return what a whole frame says, its length word included.

    Raises:
        BadFrame: it is none; the connection has lost its step and must be closed.
    """
    view = memoryview(frame)
    if len(view) < 8:
        raise BadFrame(f"a frame of {len(view)} bytes has no header")
    total, word = _WORDS.unpack_from(view)
    size = word & 0xFFFFFF
    if total + 4 != len(view) or total + 4 > MAX_FRAME_SIZE or size > total - 4:
        raise BadFrame(f"a frame of {len(view)} bytes says {total + 4}, of which the header takes {size}")
    header, body = view[8 : 8 + size], bytes(view[8 + size :])
    codec = word >> 24
    if codec == JSON:
        return _from_json(bytes(header), body)
    if codec == BINARY:
        return _from_binary(header, body)
    raise BadFrame(f"a header of codec {codec}; 0 (JSON) and 1 (binary) are known")


def _from_json(header: bytes, body: bytes) -> Request | Response:
    try:
        # ``json.loads`` would guess the encoding first, which for this beginning is UTF-8.
        read = _FROM_JSON(str(header, "utf-8", "surrogatepass")) if header[:2] == b'{"' else json.loads(header)
    except (ValueError, RecursionError) as error:
        raise BadFrame(f"a header that is no JSON: {error}") from error
    if not isinstance(read, dict):
        raise BadFrame("a JSON header that is no object")
    ext = read.get("extFields") or {}
    if not isinstance(ext, dict):
        raise BadFrame("extFields is no object")
    language = read.get("language")
    remark = read.get("remark")
    return _command(
        code=_number(read, "code"),
        language=language if isinstance(language, str) else "OTHER",
        version=_number(read, "version"),
        opaque=_number(read, "opaque"),
        flag=_number(read, "flag"),
        remark=remark if isinstance(remark, str) else None,
        ext={name: value if type(value) is str else _text(value) for name, value in ext.items() if value is not None},
        body=body,
        codec=JSON,
    )


def _number(read: dict[str, object], name: str) -> int:
    value = read.get(name, 0)
    if type(value) is not int or not _INT32[0] <= value <= _INT32[1]:
        raise BadFrame(f"{name} of a header must be a number of 32 bits")
    return value


def _text(value: object) -> str:
    """Return an ext field as text: the C++ client sends bare numbers."""
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value) if isinstance(value, int) else json.dumps(value, separators=(",", ":"))


def _from_binary(header: memoryview, body: bytes) -> Request | Response:
    if len(header) < _BINARY_HEAD.size + 4:
        raise BadFrame(f"a binary header of {len(header)} bytes, it has at least {_BINARY_HEAD.size + 4}")
    code, language, version, opaque, flag, size = _BINARY_HEAD.unpack_from(header)
    at = _BINARY_HEAD.size + size
    if size < 0 or at + 4 > len(header):
        raise BadFrame(f"a remark of {size} bytes in a binary header of {len(header)}")
    (ext_size,) = _LENGTH.unpack_from(header, at)
    if ext_size < 0 or at + 4 + ext_size > len(header):
        raise BadFrame(f"ext fields of {ext_size} bytes in a binary header of {len(header)}")
    return _command(
        code=code if flag & FLAG_RESPONSE else CUT.get(code, code),
        language=LANGUAGES[language] if language < len(LANGUAGES) else "OTHER",
        version=version,
        opaque=opaque,
        flag=flag,
        remark=_decoded(header[_BINARY_HEAD.size : at]) if size else None,
        ext=entries(bytes(header[at + 4 : at + 4 + ext_size])),
        body=body,
        codec=BINARY,
    )


def _decoded(data: memoryview) -> str:
    return bytes(data).decode("utf-8", "replace")


def _command(
    *,
    code: int,
    language: str,
    version: int,
    opaque: int,
    flag: int,
    remark: str | None,
    ext: dict[str, str],
    body: bytes,
    codec: int,
) -> Request | Response:
    if flag & FLAG_RESPONSE:
        return Response(code, ext, body, remark, opaque, version)
    return Request(code, ext, body, opaque, flag, version, language, remark, codec)
