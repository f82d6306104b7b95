"""One annotation file as a stream of its records, up to where it breaks."""

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from schemas.errors import FormatError
from schemas.json_stream import Element, JsonBreak, JsonCursor, open_annotations
from sources.records import BadRow, ReadOptions

Stream = Callable[[JsonCursor], Iterator[Element]]


def read_elements(
    path: Path,
    format: str,  # noqa: A002 - what the rest of the program calls it
    stream: Stream,
    sections: Mapping[str, frozenset[str]],
    options: ReadOptions,
    optional: frozenset[str] = frozenset(),
) -> Iterator[Element | BadRow]:
    """The records of `path`, and one last bad row of scope `file` where it breaks off.

    Args:
        path: the annotation file.
        format: its format's name, for messages.
        stream: `stream_list` or `stream_sections`.
        sections: the arrays that matter, each with the fields of which its first record must have
            at least one; other arrays are read past.
        options: the limits on what is read.
        optional: those of the arrays that may be missing or empty.

    Raises:
        FormatError: the file cannot be opened, is not JSON, lacks one of the arrays, or its first
            record has none of the fields.
    """
    counts = dict.fromkeys(sections, 0)
    with open_annotations(path) as file:
        cursor = JsonCursor(file, options.max_record_characters)
        try:
            for element in stream(cursor):
                if element.section not in counts:
                    continue
                if counts[element.section] == 0:
                    _refuse_stranger(path, format, element, sections[element.section])
                counts[element.section] += 1
                yield element
        except JsonBreak as fault:
            if not any(counts.values()):
                where = f"at byte {fault.offset:,}: {fault.what}"
                raise FormatError(f"{path} is not a {format} file, {where}") from fault
            yield end_of_file(path, fault, sum(counts.values()))
            return
    for section, count in counts.items():
        if count == 0 and section not in optional:
            where = f"under {section!r}" if section else "in its list"
            raise FormatError(f"{path} is not a {format} file: it has no records {where}")


def _refuse_stranger(
    path: Path,
    format: str,  # noqa: A002
    element: Element,
    known: frozenset[str],
) -> None:
    if isinstance(element.value, dict) and known & element.value.keys():
        return
    where = f" under {element.section!r}" if element.section else ""
    fields = ", ".join(sorted(known))
    raise FormatError(
        f"{path} is not a {format} file: its first record{where} has none of the fields {fields}"
    )


def end_of_file(path: Path, fault: JsonBreak, records: int) -> BadRow:
    """The last bad row of a file that breaks off after so many records."""
    detail = (
        f"{path.name} breaks at byte {fault.offset:,} after {records:,} records: {fault.what}; "
        f"the records before it are kept, nothing after it was read"
    )
    return BadRow(
        file=path.name,
        index=records,
        field="",
        reason=fault.reason,
        detail=detail,
        raw="",
        scope="file",
    )
