import io
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loupe.schemas.json_stream import Element, JsonBreak, JsonCursor, stream_list, stream_sections

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=10,
)
chunk_sizes = st.integers(min_value=1, max_value=40)


def cursor(data: bytes, chunk_bytes: int = 4096, max_characters: int = 100_000) -> JsonCursor:
    return JsonCursor(io.BytesIO(data), max_characters, chunk_bytes)


def read_up_to_break(at: JsonCursor) -> tuple[list[Element], JsonBreak | None]:
    elements: list[Element] = []
    try:
        for element in stream_list(at):
            elements.append(element)  # noqa: PERF402 - those before the exception are needed
    except JsonBreak as fault:
        return elements, fault
    return elements, None


@given(st.lists(json_values), st.booleans(), st.sampled_from([None, 1]), chunk_sizes)
def test_a_list_is_read_as_by_the_standard_library(
    values: list[Any], ascii_only: bool, indent: int | None, chunk_bytes: int
) -> None:
    data = json.dumps(values, ensure_ascii=ascii_only, indent=indent)
    elements = list(stream_list(cursor(data.encode("utf-8", "surrogatepass"), chunk_bytes)))
    assert [element.value for element in elements] == json.loads(json.dumps(values))
    assert [element.index for element in elements] == list(range(len(values)))


@given(st.dictionaries(st.text(), json_values), chunk_sizes)
def test_the_elements_of_the_arrays_of_an_object_are_read(
    sections: dict[str, Any], chunk_bytes: int
) -> None:
    data = json.dumps(sections).encode()
    expected = [
        Element(section, index, value)
        for section, values in sections.items()
        if isinstance(values, list)
        for index, value in enumerate(values)
    ]
    assert list(stream_sections(cursor(data, chunk_bytes))) == expected


@given(st.lists(json_values, min_size=1), st.data(), chunk_sizes)
def test_a_truncated_file_gives_its_complete_elements_and_the_length(
    values: list[Any], data: st.DataObject, chunk_bytes: int
) -> None:
    whole = json.dumps(values).encode()
    length = data.draw(st.integers(min_value=0, max_value=len(whole) - 1))
    elements, fault = read_up_to_break(cursor(whole[:length], chunk_bytes))
    assert [element.value for element in elements] == values[: len(elements)]
    assert fault is not None
    assert (fault.reason, fault.offset) == ("truncated_file", length)


@given(st.lists(json_values, max_size=3), chunk_sizes)
def test_a_fault_has_the_same_byte_offset_for_any_chunk_size(
    values: list[Any], chunk_bytes: int
) -> None:
    good = "".join(f"{json.dumps(value, ensure_ascii=False)}, " for value in values)
    before = f"[{good}".encode("utf-8", "surrogatepass")
    elements, fault = read_up_to_break(cursor(before + '{"é": nonsense}, 1]'.encode(), chunk_bytes))
    assert len(elements) == len(values)
    assert fault is not None
    assert (fault.reason, fault.offset) == ("malformed_json", len(before) + len('{"é": '.encode()))


@settings(max_examples=100)
@given(st.binary(max_size=60), chunk_sizes)
def test_any_bytes_give_elements_or_a_json_break(data: bytes, chunk_bytes: int) -> None:
    _, fault = read_up_to_break(cursor(b"[" + data, chunk_bytes))
    assert fault is None or 0 <= fault.offset <= len(data) + 1


def test_a_byte_order_mark_is_accepted() -> None:
    assert [e.value for e in stream_list(cursor(b"\xef\xbb\xbf[1]"))] == [1]


def test_an_endless_record_does_not_fill_the_memory() -> None:
    class Endless(io.RawIOBase):
        given = 0

        def read(self, size: int = -1) -> bytes:
            start = b'[1, "' if self.given == 0 else b""
            self.given += size
            return start + b"a" * (size - len(start))

    endless = Endless()
    reader = JsonCursor(endless, 10_000, 1000)  # type: ignore[arg-type]
    elements, fault = read_up_to_break(reader)
    assert [element.value for element in elements] == [1]
    assert fault is not None
    assert fault.reason == "record_too_large"
    assert endless.given < 50_000


def test_content_after_the_end_is_a_fault(subtests: pytest.Subtests) -> None:
    for tail in ("2", "[1]", "]", "x"):
        with subtests.test(tail=tail):
            elements, fault = read_up_to_break(cursor(f"[1] {tail}".encode()))
            assert [element.value for element in elements] == [1]
            assert fault is not None


def test_indices_continue_in_an_array_that_occurs_twice() -> None:
    found = stream_sections(cursor(b'{"a": [1], "b": 0, "a": [2]}'))
    assert list(found) == [Element("a", 0, 1), Element("a", 1, 2)]
