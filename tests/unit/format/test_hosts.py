"""``ip:port`` text and its bytes."""

from __future__ import annotations

import ipaddress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from litemq.format import hosts

stored_hosts = st.binary(min_size=8, max_size=8) | st.binary(min_size=20, max_size=20)
sparse_ipv6 = st.lists(st.sampled_from([0, 0, 1, 0xFFFF]), min_size=8, max_size=8).map(
    lambda groups: b"".join(group.to_bytes(2) for group in groups) + b"\0\0\x2a\x9f"
)


@pytest.mark.parametrize(
    ("text", "data"),
    [
        ("127.0.0.1:54321", "7f000001 0000d431"),
        ("0.0.0.0:0", "00000000 00000000"),
        ("255.255.255.255:-1", "ffffffff ffffffff"),
        ("[::1]:10911", "00000000000000000000000000000001 00002a9f"),
        ("[::]:0", "00000000000000000000000000000000 00000000"),
        ("[fe80::1]:1", "fe800000000000000000000000000001 00000001"),
        ("[2001:db8:0:1::]:1", "20010db8000000010000000000000000 00000001"),
        ("[1:0:3:4:5:6:7:8]:1", "00010000000300040005000600070008 00000001"),
        ("[::ffff:102:304]:1", "00000000000000000000ffff01020304 00000001"),
    ],
)
def test_both_directions(text: str, data: str) -> None:
    assert hosts.to_text(bytes.fromhex(data)) == text
    assert hosts.to_bytes(text) == bytes.fromhex(data)


@given(stored_hosts | sparse_ipv6)
def test_text_is_the_inverse_of_bytes(data: bytes) -> None:
    text = hosts.to_text(memoryview(data))
    assert hosts.to_bytes(text) == data
    assert hosts.is_ipv6(text) == (len(data) == 20)


@given(sparse_ipv6)
def test_ipv6_agrees_with_the_library(data: bytes) -> None:
    address = ipaddress.IPv6Address(data[:16])
    if address.ipv4_mapped is None:  # newer Pythons mix notations there
        assert hosts.to_text(data) == f"[{address.compressed}]:10911"


@pytest.mark.parametrize(
    "text",
    [
        *("", ":", "host:1", "1.2.3:4", "1.2.3.4", "1.2.3.4:", "1.2.3.256:1", "01.2.3.4:1", "1.2.3.4:01", "1.2.3.4:+1"),
        *("1.2.3.4:2147483648", "1.2.3.4:99999999999999", "1.2.3.4.5:1", "1.2.3.-4:1", "1.2.3.٤:1", "1.2.3.4:١"),
        *("::1:1", "[::1]", "[::1]:x", "[:::1]:1", "[::1::]:1", "[0::1]:1", "[::0001]:1", "[::FF]:1", "[1:2:3]:1"),
        *("[1::2:3:4:5:6:7:8]:1", "[1:2:3:4:5:6:7:8:9]:1", "[::ffff:1.2.3.4]:1", "[::g]:1", "[::1_0]:1", "[]:1"),
        *(f"[{'1:' * 500}]:1", "[1:0:0:2:0:0:0:3]:1"),
    ],
)
def test_what_is_no_host(text: str) -> None:
    assert hosts.to_bytes(text) is None
    assert not hosts.is_ipv6(text)


@given(st.text(max_size=30))
def test_any_text_is_answered(text: str) -> None:
    data = hosts.to_bytes(text)
    assert data is None or hosts.to_text(data) == text
