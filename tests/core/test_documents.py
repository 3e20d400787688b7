"""JSON text as DxDispatch reads it: what is accepted, where errors point, and that it
is quick."""

from __future__ import annotations

import json
import time

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from messages import message_of
from rings import one_quick_in

from onnxgather.core.documents import Field, JsonObject, parse_json
from onnxgather.core.errors import FileFormatError

ACCEPTED = {
    "// a comment\n[1] // another": [1],
    "/* a\ncomment */ [1]": [1],
    "[1, /* y */ ]": [1],
    "[1 /**/ , // x\n 2,]": [1, 2],
    '{"a": 1, }': {"a": 1},
    '{"a" /* : */ : /* 2 */ 1}': {"a": 1},
    '["//", "/* */", ",]", "\\"//"]': ["//", "/* */", ",]", '"//'],
    "[[1,],[2,],]": [[1], [2]],
    "[] what follows the root, /* even this": [],
    "1 2": 1,
    "/***/ 1": 1,
    "\ufeff[1]": [1],
    "18446744073709551615": 2**64 - 1,
    "-9223372036854775808": -(2**63),
    "18446744073709551616": 2.0**64,
    "-9223372036854775809": -(2.0**63),
    "-0": 0,
    "1e-400": 0.0,
    '"\\ud83d\\ude00"': "\U0001f600",
    '"\\\\ud800"': "\\ud800",
    "[true, false, null]": [True, False, None],
}

REFUSED = {
    "": "line 1 column 1: expected a value, got the end of the text",
    " \n ": "line 2 column 2: expected a value, got the end of the text",
    "[1,,]": "line 1 column 4: expected a value, got ','",
    "[,]": "line 1 column 2: expected a value, got ','",
    "{,}": "line 1 column 2: expected a field name in double quotes, got ','",
    '{"a":,}': "line 1 column 6: expected a value, got ','",
    '{"a":1,,}': "line 1 column 8: expected a field name in double quotes, got ','",
    "[1 2]": "line 1 column 4: expected ',' or the end of the array or object, got '2'",
    "[1/**/2]": (
        "line 1 column 7: expected ',' or the end of the array or object, got '2'"
    ),
    "[\n// x\n  }": "line 3 column 3: expected a value, got '}'",
    "/*/": "line 1 column 1: expected '*/' after '/*', got the end of the text",
    "[1, /* x": "line 1 column 5: expected '*/' after '/*', got the end of the text",
    "[1e400]": "line 1 column 2: expected a number that FLOAT64 holds, got '1e400'",
    '["1e400", 1e400]': (
        "line 1 column 11: expected a number that FLOAT64 holds, got '1e400'"
    ),
    "[NaN]": (
        "line 1 column 2: expected a value (\"NaN\" is written as a string), got 'NaN'"
    ),
    "[-Infinity]": (
        'line 1 column 2: expected a value ("-Infinity" is written as a string), '
        "got '-Infinity'"
    ),
    "[NaNx]": (
        "line 1 column 2: expected a value (\"NaN\" is written as a string), got 'NaN'"
    ),
    '{"a":1e400x}': (
        "line 1 column 6: expected a number that FLOAT64 holds, got '1e400'"
    ),
    '["-1e400", -1e400.5]': (
        "line 1 column 12: expected a number that FLOAT64 holds, got '-1e400'"
    ),
    '[1e4000"NaN"]': (
        "line 1 column 2: expected a number that FLOAT64 holds, got '1e4000'"
    ),
    '"\\udc00"': "line 1 column 2: expected a pair of surrogates, got \\udc00 alone",
    '["\\ud800\\ud800"]': (
        "line 1 column 3: expected a pair of surrogates, got \\ud800 alone"
    ),
    '"\ud800"': "line 1 column 2: expected UTF-8, got '\\ud800'",
    '"a\nb"': (
        "line 1 column 3: expected an escape for a control character in a string, got"
        " '\\n'"
    ),
    '"\\x"': "line 1 column 2: expected an escape that JSON knows, got '\\\\'",
    '["abc': "line 1 column 2: expected a string with an end, got '\"'",
    "{'a': 1}": 'line 1 column 2: expected double quotes, got "\'"',
    "['a']": 'line 1 column 2: expected double quotes, got "\'"',
    '{"a" 1}': "line 1 column 6: expected ':', got '1'",
    "\0": "line 1 column 1: expected a value, got '\\x00'",
    "[" * 100_000: (
        "line 1 column 1: expected fewer arrays and objects inside one another, "
        "got too many"
    ),
    "[" + "9" * 5000 + "]": (
        f"line 1 column 2: expected a number that FLOAT64 holds, got "
        f"'{'9' * 20}…{'9' * 20}'"
    ),
}


@pytest.mark.parametrize("text", ACCEPTED)
def test_accepts_what_dxdispatch_accepts(text: str):
    assert parse_json(text) == ACCEPTED[text]
    assert parse_json(text.encode()) == ACCEPTED[text]


@pytest.mark.parametrize("text", REFUSED, ids=lambda text: repr(text[:20]))
def test_refuses_with_line_and_column(text: str):
    assert message_of(FileFormatError, parse_json, text) == (REFUSED[text])


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b'["\xff"]', "line 1 column 3: expected UTF-8, got byte 0xff"),
        (b'["\xc3\xa9", "\xe9"]', "line 1 column 8: expected UTF-8, got byte 0xe9"),
        (b"\xff\xfe[\x00", "line 1 column 1: expected a value, got byte 0xff"),
    ],
)
def test_bytes_that_are_not_utf8_are_refused(content: bytes, message: str):
    assert message_of(FileFormatError, parse_json, content) == message


def test_bytes_that_are_not_utf8_are_ignored_where_text_is():
    assert parse_json(b"// \xff\n[1] \xff") == [1]


def test_integers_stay_integers_up_to_64_bits():
    assert [
        type(parse_json(text))
        for text in ("7", "18446744073709551615", "7.0", "1" * 21)
    ] == [
        int,
        int,
        float,
        float,
    ]


def test_first_of_repeated_fields_counts_and_all_are_kept():
    value = parse_json('{"a": 1, "b": 2, "a": 3}')
    assert isinstance(value, JsonObject)
    assert value == {"a": 1, "b": 2}
    assert value.pairs == [("a", 1), ("b", 2), ("a", 3)]


def test_a_path_has_the_start_of_a_long_key():
    place = (Field({}, "$.resources"), "k" * 10**6)
    assert Field(0, place).path == f'$.resources["{"k" * 30}…{"k" * 30}"]'
    assert Field(0, (Field({}), "k" * 60)).path == f"$.{'k' * 60}"


@pytest.mark.parametrize(
    "text",
    one_quick_in(
        11,
        [
            pytest.param("/*" * 1_000_000, id="comments"),
            pytest.param('"' * 2_000_000, id="quotes"),
            pytest.param('["' + '\\"' * 1_000_000, id="escapes"),
            pytest.param("[," * 1_000_000, id="commas"),
            pytest.param("[" + " ," * 1_000_000, id="spaced commas"),
            pytest.param("[" + " " * 2_000_000, id="spaces"),
            pytest.param("//\n" * 700_000, id="lines"),
            pytest.param("1" * 2_000_000, id="digits"),
            pytest.param("[" * 2_000_000, id="brackets"),
            pytest.param("{" * 2_000_000, id="braces"),
            pytest.param("[" + "1," * 1_000_000 + "NaN]", id="a constant at the end"),
        ],
    ),
)
def test_time_grows_with_the_length_only(text: str):
    start = time.process_time()
    try:
        parse_json(text)
    except FileFormatError as error:
        message = str(error)
        assert message.startswith("line ")
    assert time.process_time() - start < 10  # a quadratic reader takes hours


plain = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: (
        st.lists(inner)
        | st.dictionaries(st.text(st.characters(exclude_categories=["Cs"])), inner)
    ),
    max_leaves=10,
)


@given(plain, st.booleans(), st.sampled_from([None, 2]))
def test_reads_what_json_writes(value: object, escaped: bool, indent: int | None):
    text = json.dumps(value, ensure_ascii=escaped, indent=indent)
    assert parse_json(text) == value
    assert json.dumps(parse_json(f"/*[*/{text}//]")) == json.dumps(value)


TOKENS = [
    "NaN",
    "Infinity",
    "-Infinity",
    "1e400",
    "-1e400",
    "1e4",
    "nul",
    "x",
    "'a'",
    '"',
    "\\",
    "\\u",
    "[",
    "]",
    "{",
    "}",
    ",",
    ":",
    "//",
    "/*",
    "*/",
]


@given(
    st.text()
    | st.lists(st.sampled_from(TOKENS)).map("".join)
    | st.text('[]{},:"\\/*1e.-aNu\n ')
    | st.binary()
)
@example("[1" * 5000)
@example(b"\xed\xa0\x80")
@example('"\\ud800\\')
def test_any_text_gives_a_value_or_a_file_format_error(source: str | bytes):
    try:
        value = parse_json(source)
    except FileFormatError as error:
        message = str(error)
        assert message.startswith("line ")
        return
    assert json.loads(json.dumps(value)) == value


def test_a_list_that_is_wrong_about_its_length_is_read() -> None:
    class Liar(list[int]):
        def __len__(self) -> int:
            return 10**18

    assert Field(Liar([4, 3])).array() == [4, 3]
