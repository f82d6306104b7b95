import bz2
import gzip
import io
import tarfile
import zipfile
from pathlib import Path

import pytest

from loupe.schemas.errors import FormatError
from loupe.schemas.text_files import as_utf8, open_text, read_text

TEXT = '[{"captions": ["Ein Mädchen in grüner Jacke 女孩"]}]\n' * 500


def zipped(data: bytes) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("a.json", data)
    return buffer.getvalue()


def tarred(data: bytes) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        member = tarfile.TarInfo("a.json")
        member.size = len(data)
        archive.addfile(member, io.BytesIO(data))
    return buffer.getvalue()


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize(
    "encoding",
    ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "utf-32", "utf-32-be"],
)
def test_a_text_is_read_in_whatever_encoding_it_was_saved(
    tmp_path: Path, encoding: str, packed: bool
) -> None:
    path = tmp_path / "a"
    data = TEXT.encode(encoding)
    path.write_bytes(gzip.compress(data) if packed else data)
    assert read_text(path, "a list") == TEXT
    with open_text(path) as file:
        assert b"".join(iter(file.readline, b"")).decode("utf-8") == TEXT


@pytest.mark.parametrize(
    ("data", "what"),
    [
        (zipped(b"[]"), "is a ZIP archive, as Excel writes them; unpack it"),
        (tarred(b"[]"), "is a tar archive; unpack it"),
        (bz2.compress(b"[]"), "is compressed (bzip2); unpack it"),
        (b"PAR1\x15\x04", "is a Parquet file"),
        (b"\n <!DOCTYPE html><title>Sign in</title>", "is a web page, not the file itself"),
        (b"version https://git-lfs.github.com/spec/v1\n", "is a pointer of Git LFS"),
        (gzip.compress(TEXT.encode())[:-9], "is compressed (gzip) and damaged"),
        ("[\n'é'".encode("cp1252"), "is not UTF-8 (byte 0xe9 in line 2); save it as UTF-8"),
    ],
    ids=["zip", "tar", "bzip2", "parquet", "page", "lfs", "damaged", "cp1252"],
)
def test_what_is_no_text_is_named(tmp_path: Path, data: bytes, what: str) -> None:
    path = tmp_path / "a.json"
    path.write_bytes(data)
    with pytest.raises(FormatError) as refused:
        read_text(path, "a list")
    assert what in str(refused.value)


def test_a_file_that_is_open_already_is_read_as_well() -> None:
    assert as_utf8(io.BytesIO(TEXT.encode("utf-16")), "list.txt").read().decode() == TEXT
