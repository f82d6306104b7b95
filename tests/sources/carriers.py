"""Images that contain the place where they were taken, each in another part of its file."""

import io
import struct
import zipfile
import zlib
from typing import Final

from PIL import Image
from PIL.PngImagePlugin import PngInfo

from tests.sources.pictures import chunk, encoded, quarters

PLACE: Final = "48.137154N 11.576124E"
_PLACE_BYTES: Final = PLACE.encode()
_SIZE: Final = (120, 90)
_XMP: Final = f'<x:xmpmeta><rdf:Description exif:GPSLatitude="{PLACE}"/></x:xmpmeta>'
_LONGEST_SEGMENT: Final = 65533


def contains_place(data: bytes) -> bool:
    """Whether `data` contains the place in plain text, UTF-16 or a zlib stream."""
    at = data.find(b"\x78")
    while at >= 0:
        try:
            if _PLACE_BYTES in zlib.decompressobj().decompress(data[at:], 10_000):
                return True
        except zlib.error:
            pass
        at = data.find(b"\x78", at + 1)
    return any(PLACE.encode(code) in data for code in ("utf-8", "utf-16-le", "utf-16-be"))


def segment(marker: int, data: bytes) -> bytes:
    """A segment of a JPEG."""
    return struct.pack(">BBH", 0xFF, marker, len(data) + 2) + data


def in_front(data: bytes, *segments: bytes) -> bytes:
    """Insert segments into a JPEG after its first marker."""
    return data[:2] + b"".join(segments) + data[2:]


def riff(name: bytes, data: bytes) -> bytes:
    """A chunk of a WebP."""
    return name + struct.pack("<I", len(data)) + data + bytes(len(data) % 2)


def with_riff(webp: bytes, *chunks: bytes) -> bytes:
    """Append chunks to a WebP."""
    body = webp[8:] + b"".join(chunks)
    return b"RIFF" + struct.pack("<I", len(body)) + body


def before_end(png: bytes, *chunks: bytes) -> bytes:
    """Insert chunks into a PNG before its last chunk."""
    end = chunk(b"IEND", b"")
    return png.removesuffix(end) + b"".join(chunks) + end


def exif() -> bytes:
    """An EXIF block with its header, without an orientation."""
    block = Image.Exif()
    block[0x010E] = PLACE
    block.get_ifd(0x8825)[1] = "N"
    block.get_ifd(0x8825)[2] = (48.0, 8.0, 13.75)
    return block.tobytes()


def archive() -> bytes:
    """A ZIP archive."""
    with zipfile.ZipFile(buffer := io.BytesIO(), "w") as written:
        written.writestr("place.txt", PLACE)
    return buffer.getvalue()


def video() -> bytes:
    """The start of an MP4 that contains a place, as phones append it to motion photos."""
    place = b"\xa9xyz" + struct.pack(">HH", len(_PLACE_BYTES), 0x15C7) + _PLACE_BYTES
    boxes = (b"ftypmp42" + bytes(4), b"moov" + place)
    return b"".join(struct.pack(">I", len(box) + 4) + box for box in boxes)


def _iptc() -> bytes:
    record = b"\x1c\x02\x5a" + struct.pack(">H", len(_PLACE_BYTES)) + _PLACE_BYTES
    return b"Photoshop 3.0\x008BIM\x04\x04\x00\x00" + struct.pack(">I", len(record)) + record


def _extended_xmp() -> bytes:
    packet = _XMP.encode()
    head = struct.pack(">32sII", b"A" * 32, len(packet), 0)
    return b"http://ns.adobe.com/xmp/extension/\x00" + head + packet


def _between_scans(data: bytes) -> bytes:
    """Insert a comment after the first scan of a progressive JPEG."""
    tables = data.index(b"\xff\xc4", data.index(b"\xff\xda"))
    return data[:tables] + segment(0xFE, _PLACE_BYTES) + data[tables:]


def _bytes_before_scan(data: bytes) -> bytes:
    scan = data.index(b"\xff\xda")
    return data[:scan] + _PLACE_BYTES + data[scan:]


def _lengthen_segment(data: bytes, begin: bytes) -> bytes:
    """Make the segment of a JPEG that starts with `begin` longer than it should be."""
    at = data.index(begin) - 2
    size = int.from_bytes(data[at : at + 2], "big")
    longer = struct.pack(">H", size + len(_PLACE_BYTES)) + data[at + 2 : at + size] + _PLACE_BYTES
    return data[:at] + longer + data[at + size :]


def _png_text(key: str, *, compressed: bool) -> bytes:
    notes = PngInfo()
    notes.add_itxt(key, _XMP, zip=compressed)
    return encoded("PNG", _SIZE, pnginfo=notes)


def _png_texts() -> bytes:
    notes = PngInfo()
    notes.add_text("Location", PLACE)
    notes.add_text("Raw profile type exif", PLACE, zip=True)
    return encoded("PNG", _SIZE, pnginfo=notes)


def _bmp_with_a_gap() -> bytes:
    data = bytearray(encoded("BMP", _SIZE))
    data[54:54] = _PLACE_BYTES
    struct.pack_into("<I", data, 2, len(data))
    struct.pack_into("<I", data, 10, 54 + len(_PLACE_BYTES))
    return bytes(data)


_JPEG: Final = encoded("JPEG", _SIZE)
_PNG: Final = encoded("PNG", _SIZE)
_WEBP: Final = encoded("WEBP", _SIZE, lossless=True)
_XMP_HEAD: Final = b"http://ns.adobe.com/xap/1.0/\x00"
_EMPTY_EXIF: Final = segment(0xE1, Image.Exif().tobytes())
_UTF_16: Final = _XMP_HEAD + _XMP.encode("utf-16")
_BIG_ENDIAN: Final = _XMP_HEAD + b"\xfe\xff" + _XMP.encode("utf-16-be")

CARRIERS: Final = {
    "JPEG with EXIF": encoded("JPEG", _SIZE, exif=exif()),
    "JPEG with a second EXIF": in_front(_JPEG, _EMPTY_EXIF, segment(0xE1, exif())),
    "JPEG with damaged EXIF": in_front(_JPEG, segment(0xE1, b"Exif\0\0" + _PLACE_BYTES)),
    "JPEG with XMP": encoded("JPEG", _SIZE, xmp=_XMP.encode()),
    "JPEG with XMP in UTF-16": in_front(_JPEG, segment(0xE1, _UTF_16)),
    "JPEG with XMP in UTF-16, big-endian": in_front(_JPEG, segment(0xE1, _BIG_ENDIAN)),
    "JPEG with extended XMP": in_front(_JPEG, segment(0xE1, _extended_xmp())),
    "JPEG with IPTC": in_front(_JPEG, segment(0xED, _iptc())),
    "JPEG with a comment": encoded("JPEG", _SIZE, comment=PLACE),
    "JPEG with a comment between scans": _between_scans(encoded("JPEG", _SIZE, progressive=True)),
    "JPEG with what is no profile": in_front(_JPEG, segment(0xE2, b"FPXR\0" + _PLACE_BYTES)),
    "JPEG with a long segment": in_front(
        _JPEG, segment(0xEF, _PLACE_BYTES.ljust(_LONGEST_SEGMENT))
    ),
    "JPEG with bytes between segments": _bytes_before_scan(_JPEG),
    "JPEG with a JFIF thumbnail": _lengthen_segment(_JPEG, b"JFIF\0"),
    "JPEG with a JFXX thumbnail": in_front(_JPEG, segment(0xE0, b"JFXX\0\x10" + _PLACE_BYTES)),
    "JPEG with a long Adobe header": _lengthen_segment(
        encoded("JPEG", _SIZE, keep_rgb=True), b"Adobe\0"
    ),
    "JPEG with text behind its end": _JPEG + _PLACE_BYTES,
    "JPEG with a video behind its end": _JPEG + video(),
    "JPEG with a JPEG behind its end": encoded(
        "MPO", _SIZE, save_all=True, append_images=[quarters()], exif=exif()
    ),
    "PNG with EXIF": encoded("PNG", _SIZE, exif=exif()),
    "PNG with late EXIF": before_end(_PNG, chunk(b"eXIf", exif()[6:])),
    "PNG with XMP": _png_text("XML:com.adobe.xmp", compressed=False),
    "PNG with compressed XMP": _png_text("XML:com.adobe.xmp", compressed=True),
    "PNG with texts": _png_texts(),
    "PNG with a chunk of its own": before_end(_PNG, chunk(b"loCa", _PLACE_BYTES)),
    "PNG with a scale that is too long": before_end(_PNG, chunk(b"pHYs", _PLACE_BYTES)),
    "PNG with text behind its end": _PNG + _PLACE_BYTES,
    "PNG with a video behind its end": _PNG + video(),
    "WebP with EXIF": encoded("WEBP", _SIZE, exif=exif()),
    "WebP with XMP": encoded("WEBP", _SIZE, xmp=_XMP.encode(), lossless=True),
    "WebP with XMP in UTF-16": encoded("WEBP", _SIZE, xmp=_XMP.encode("utf-16")),
    "WebP with a chunk of its own": with_riff(_WEBP, riff(b"loCa", _PLACE_BYTES)),
    "WebP with text behind its end": _WEBP + _PLACE_BYTES,
    "BMP with text behind its end": encoded("BMP", _SIZE) + _PLACE_BYTES,
    "BMP with text before its pixels": _bmp_with_a_gap(),
}
