"""JSON with any fields: a list of objects, or an object a line."""

from collections.abc import Iterator
from pathlib import Path

from loupe.schemas.columns import TableColumns
from loupe.schemas.json_stream import stream_list
from loupe.schemas.text_files import open_text
from loupe.sources.annotations import FieldError, bad_row, checked_object
from loupe.sources.columns import CAPTIONS, IMAGES, Found, RecordImporter, folded
from loupe.sources.records import BadRow, ReadOptions


class JsonImporter(RecordImporter):
    """Reads objects with the fields that a source states; one object is one image.

    Of conversations with a model (`from` or `role`), what a person asks is no caption.
    """

    def records(self, path: Path, options: ReadOptions) -> Iterator[Found | BadRow]:
        """Yield the objects, one at a time.

        Raises:
            FormatError: it is no JSON, or its first object has none of the fields.
        """
        stated = options.columns or TableColumns()
        named = [stated.image, stated.identity, *stated.captions]
        known = frozenset({*IMAGES, *CAPTIONS, *(one for one in named if one)})
        with open_text(path) as file:
            first = file.peek(1).lstrip()[:1]
        if first not in (b"[", b"{"):
            raise self.stranger(path, ": it begins with neither a list nor an object")
        if first == b"[":
            elements = self.elements(path, stream_list, {"": known}, options)
        else:
            wanted = "a field of an image (image, file_name …)"
            elements = self.lines(path, options, lambda keys: not known.isdisjoint(keys), wanted)
        for element in elements:
            if isinstance(element, BadRow):
                yield element
                continue
            try:
                fields = folded(checked_object(element.value))
            except FieldError as fault:
                yield bad_row(fault, path.name, element.index, element.value)
                continue
            yield Found(path.name, element.index, fields)
