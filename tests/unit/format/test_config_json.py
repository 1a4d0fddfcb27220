"""What RocketMQ writes into ``config/*.json`` is read; what is written is strict JSON."""

from __future__ import annotations

import json
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.format import fixtures

from litemq.format import config_json
from litemq.format.config_json import BadConfig, JsonValue

OFFSETS = """{
\t"dataVersion":{
\t\t"counter":1,
\t\t"stateVersion":0,
\t\t"timestamp":1700000000000
\t},
\t"offsetTable":{
\t\t"%RETRY%g1@g1":{0:5
\t\t},
\t\t"TopicTest@g1":{0:251,1:250
\t\t}
\t}
}"""


def test_integer_keys_without_quotes() -> None:
    assert config_json.read(OFFSETS)["offsetTable"] == {"%RETRY%g1@g1": {"0": 5}, "TopicTest@g1": {"0": 251, "1": 250}}
    assert config_json.read('{"offsetTable":{1:9,3:11\n\t}\n}') == {"offsetTable": {"1": 9, "3": 11}}


@pytest.mark.parametrize("name", ["clean", "killed"])
def test_every_file_of_a_real_rocketmq(name: str) -> None:
    store = fixtures.rocketmq(name)
    files = {path: data for path, data in store.below("config").items() if path.endswith((".json", ".json.bak"))}
    assert len(files) >= 6
    for path, data in files.items():
        table = config_json.read(data)
        assert table, path
        assert json.loads(config_json.write(table)) == table
    offsets = config_json.read(files["config/consumerOffset.json"])["offsetTable"]
    assert offsets == store.meta["consumer_offsets"]
    delays = config_json.read(files["config/delayOffset.json"])["offsetTable"]
    assert delays == store.meta["delay_offsets"]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("{}", {}),
        (" \n{ } \t", {}),
        ('\ufeff{"a":1}'.encode(), {"a": 1}),
        ('{"a":[],"b":[1,-2,3.5,1e3],"c":{}}', {"a": [], "b": [1, -2, 3.5, 1000.0], "c": {}}),
        ('{"a":true,"b":false,"c":null}', {"a": True, "b": False, "c": None}),
        ('{"a":1,}', {"a": 1}),
        ('{"a":[1,2,]}', {"a": [1, 2]}),
        ('{a:1,_b$:2,-3:"c"}', {"a": 1, "_b$": 2, "-3": "c"}),
        ('{"\\u4e2d\\n\\"":"\\ud83d\\ude00"}', {'中\n"': "😀"}),
        ('{"a":"\\ud800"}', {"a": "?"}),
        ('{"a":"line\nend"}', {"a": "line\nend"}),
        ('{"a":1,"a":2}', {"a": 2}),
        ('{"big":' + "9" * 300 + "}", {"big": int("9" * 300)}),
    ],
)
def test_lenient_reading(text: str | bytes, value: object) -> None:
    assert config_json.read(text) == value


@pytest.mark.parametrize(
    "text",
    [
        *("", " ", "[]", "1", '"a"', "null", "{", "}", "{]", "[}", '{"a"', '{"a":', '{"a":1', '{"a" 1}', "{1}", "{,}"),
        *('{"a":1 "b":2}', '{"a":1}}', '{"a":1} x', '{"a":tru}', '{"a":+1}', '{"a":01x}', '{"a":"x', '{"a":"\\x"}'),
        *('{"a":[1 2]}', '{"a":[1}', '{"a":-}', '{"a":nan}', "{'a':1}", '{"a":1,,"b":2}', '{"a":' + "9" * 5000 + "}"),
        '{"a":' * 65 + "1" + "}" * 65,
    ],
)
def test_what_is_refused(text: str) -> None:
    with pytest.raises(BadConfig):
        config_json.read(text)


def test_refusals_say_where() -> None:
    with pytest.raises(BadConfig, match="line 3: ':' expected"):
        config_json.read('{\n"a":1,\n"b" 2}')
    with pytest.raises(BadConfig, match="not UTF-8 at byte 6"):
        config_json.read(b'{"a":"\xff"}')


def test_depth_and_size_do_no_harm() -> None:
    with pytest.raises(BadConfig, match="deeper than 64"):
        config_json.read("[" * 1_000_000)
    with pytest.raises(BadConfig, match="deeper than 64"):
        config_json.read('{"a":' * 1_000_000)
    deep = '{"a":' * 64 + "1" + "}" * 64
    assert config_json.read(deep)
    started = time.process_time()
    wide = "{" + ",".join(f'"topic{n}@group":{{0:{n},1:{n}}}' for n in range(20_000)) + "}"
    assert len(config_json.read(wide)) == 20_000
    for text in ("{" + " " * 1_000_000, '{"' + "\\" * 1_000_001, '{"a":' + "1" * 1_000_000, "{" + "a" * 1_000_000):
        with pytest.raises(BadConfig):
            config_json.read(text)
    assert time.process_time() - started < 5


def test_the_writer_s_shape() -> None:
    text = config_json.write({"b": {"1": 2}, "a": [True, None, "ü"], "c": {}})
    assert text.decode() == '{\n\t"a":[\n\t\ttrue,\n\t\tnull,\n\t\t"ü"\n\t],\n\t"b":{\n\t\t"1":2\n\t},\n\t"c":{}\n}\n'


values: st.SearchStrategy[JsonValue] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=12,
)


@given(st.dictionaries(st.text(max_size=8), values, max_size=4))
def test_round_trip(table: dict[str, JsonValue]) -> None:
    data = config_json.write(table)
    assert config_json.read(data) == json.loads(data) == table


@given(st.text(st.sampled_from('{}[],:"\\0129-.etruefalsn \n'), max_size=40))
def test_any_text_is_answered(text: str) -> None:
    try:
        value = config_json.read(text)
    except BadConfig:
        with pytest.raises((ValueError, AssertionError)):  # what is strict JSON is never refused
            assert isinstance(json.loads(text), dict)
        return
    assert isinstance(value, dict)
