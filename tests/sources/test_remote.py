"""Sources at addresses: the same rows and digests as on this machine, and clear sentences."""

import http.server
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from loupe.schemas.errors import FormatError
from loupe.sources.images import ImageProblem, InspectedImage, inspect_each
from loupe.sources.importer import importer_for, read_source
from loupe.sources.records import ReadOptions, SourceRow
from loupe.sources.remote import located, shown_address
from tests.sources.formats.writing import FORMATS, parquet, pictures, table

BUCKET = "people"


class Quiet(http.server.SimpleHTTPRequestHandler):
    """Serves files, refuses `/secret/` and redirects `/away/` to a private address."""

    def do_GET(self) -> None:
        if self.path.startswith("/secret/"):
            self.send_error(403)
        elif self.path.startswith("/away/"):
            self.send_response(302)
            self.send_header("Location", "http://10.0.0.1/a.csv")
            self.end_headers()
        else:
            super().do_GET()

    do_HEAD = do_GET  # noqa: N815

    def log_message(self, *_: Any) -> None:
        """Be quiet."""


@contextmanager
def served(folder: Path) -> Iterator[str]:
    handler = partial(Quiet, directory=str(folder))
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()


@pytest.fixture(scope="session")
def s3_endpoint() -> Iterator[str]:
    from moto.server import ThreadedMotoServer  # not at the top, because it takes a second

    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    yield f"http://{host}:{port}"
    server.stop()


@pytest.fixture
def bucket(s3_endpoint: str, monkeypatch: pytest.MonkeyPatch) -> Any:
    import boto3

    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "nobody")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "nothing")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    monkeypatch.setenv("AWS_ENDPOINT_URL", s3_endpoint)
    client = boto3.client("s3")
    client.create_bucket(Bucket=BUCKET)
    return client


@pytest.fixture
def google_bucket(monkeypatch: pytest.MonkeyPatch, free_tcp_port: int) -> Iterator[Any]:
    """The file system of a local emulator of Google Cloud Storage, with a bucket."""
    from gcp_storage_emulator.server import create_server

    server = create_server("127.0.0.1", free_tcp_port, in_memory=True, default_bucket=BUCKET)
    server.start()
    monkeypatch.setenv("STORAGE_EMULATOR_HOST", f"http://127.0.0.1:{free_tcp_port}")
    # the emulator does not speak gRPC, in which gcsfs asks for hierarchical namespaces
    monkeypatch.setenv("GCSFS_EXPERIMENTAL_ZB_HNS_SUPPORT", "false")
    import gcsfs

    yield gcsfs.GCSFileSystem(token="anon")
    gcsfs.GCSFileSystem.clear_instance_cache()
    server.stop()


def uploaded(client: Any, folder: Path, prefix: str) -> None:
    for path in folder.rglob("*"):
        if path.is_file():
            name = f"{prefix}/{path.relative_to(folder).as_posix()}"
            client.put_object(Bucket=BUCKET, Key=name, Body=path.read_bytes())


def what_is_read(name: str, address: str | Path, copies: Path) -> Any:
    """The digest of the annotations, and all rows with the digests of their images."""
    place = located(address, "", copies)
    importer = importer_for(name)
    found = []
    for row in read_source(importer, place.annotations, ReadOptions(), place.images):
        assert isinstance(row, SourceRow), row
        (image,) = inspect_each(place.images, [row])
        assert isinstance(image, InspectedImage), image
        found.append((row.model_dump(), image.source_sha256))
    return place.annotations.name, importer.digest(place.annotations), found


@pytest.mark.parametrize("writer", sorted(FORMATS.keys() - {"img2dataset"}))  # refuses some
def test_a_bucket_gives_what_the_folder_gives(tmp_path: Path, bucket: Any, writer: str) -> None:
    name, write = FORMATS[writer]
    folder = tmp_path / "data"
    folder.mkdir()
    path = write(folder, pictures())
    uploaded(bucket, folder, f"{writer}/data")
    address = f"s3://{BUCKET}/{writer}/{path.relative_to(tmp_path).as_posix()}"
    copies = tmp_path / "copies"
    assert what_is_read(name, address, copies) == what_is_read(name, path, copies)


def test_a_bucket_of_google_gives_what_the_folder_gives(tmp_path: Path, google_bucket: Any) -> None:
    path = table(tmp_path, pictures())
    files = {one.relative_to(tmp_path): one for one in tmp_path.rglob("*") if one.is_file()}
    for name, file in files.items():
        google_bucket.pipe(f"{BUCKET}/data/{name.as_posix()}", file.read_bytes())
    copies = tmp_path / "copies"
    read = what_is_read("csv", f"gs://{BUCKET}/data/{path.name}", copies)
    assert read == what_is_read("csv", path, copies)


def test_a_web_server_gives_what_the_folder_gives(tmp_path: Path) -> None:
    path = table(tmp_path, pictures())
    with served(tmp_path) as server:
        address = f"{server}/people.csv?signature=SECRET"
        said: list[str] = []
        place = located(address, "", tmp_path / "copies", said.append)
        again: list[str] = []
        located(address, "", tmp_path / "copies", again.append)
        read = what_is_read("csv", address, tmp_path / "copies")
    assert read == what_is_read("csv", path, tmp_path)
    assert (len(said), again) == (2, []), "what has not changed is not copied again"
    kept = [str(one) for one in (tmp_path / "copies").rglob("*")]
    assert "SECRET" not in " ".join([*said, *kept, str(place)])


def test_a_file_that_changed_is_copied_again(tmp_path: Path) -> None:
    import fsspec

    memory = fsspec.filesystem("memory")
    for text in ("one", "two"):
        memory.pipe("/changed/a.csv", f"file_name,caption\na.jpg,{text}\n".encode())
        place = located("memory://changed/a.csv", "", tmp_path)
        (row,) = read_source(importer_for("csv"), place.annotations)
        assert isinstance(row, SourceRow)
        assert row.captions == (text,)


def test_a_pattern_names_the_files_of_a_bucket(tmp_path: Path, bucket: Any) -> None:
    parquet(tmp_path, pictures())
    uploaded(bucket, tmp_path, "pattern")
    address = f"s3://{BUCKET}/pattern/*-00000-of-*.parquet"
    place = located(address, "", tmp_path / "copies")
    assert len(list(read_source(importer_for("parquet"), place.annotations))) == 4


@pytest.mark.parametrize(
    ("address", "message"),
    [
        ("{web}/none.csv", "there is nothing at http://127"),
        ("{web}/secret/a.csv", r"/secret/a.csv cannot be read: ClientResponseError: 403"),
        ("{web}/away/a.csv", r"/away/a.csv cannot be read: .*a redirect leads to 10.0.0.1"),
        ("http://user:pass@127.0.0.1:9/a.csv", r"^http://127.0.0.1:9/a.csv cannot be read: it can"),
        (
            "s3://nobody-made-this/a.csv",
            r"s3://nobody-made-this/a.csv cannot be read: NoSuchBucket",
        ),
        ("klingon://a.csv", "has an unknown scheme; known are s3, gs, hf"),
        ("hf://datasets/a/b", r"names no revision.*add a tag or a commit, such as .*a/b@v1.0"),
    ],
)
def test_what_cannot_be_reached_is_one_sentence(
    tmp_path: Path, bucket: Any, address: str, message: str
) -> None:
    with served(tmp_path) as server, pytest.raises(FormatError, match=message) as caught:
        located(address.format(web=server), "", tmp_path / "copies")
    assert "pass" not in str(caught.value)


def test_a_bucket_without_rights_names_the_credentials(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import s3fs

    class Denying(Quiet):
        def do_GET(self) -> None:
            self.send_response(403)
            self.end_headers()

        do_HEAD = do_GET  # noqa: N815

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Denying)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{server.server_port}")
    s3fs.S3FileSystem.clear_instance_cache()  # which was made for another server
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "denied-key")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "denied-secret")
    try:
        with pytest.raises(FormatError) as caught:
            located("s3://theirs/a.csv", "", tmp_path)
    finally:
        server.shutdown()
        server.server_close()
        s3fs.S3FileSystem.clear_instance_cache()
    said = str(caught.value)
    assert said.startswith("s3://theirs/a.csv cannot be read: PermissionError: ")
    assert said.endswith("environment (AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY or AWS_PROFILE)")


def test_images_of_a_server_may_be_missing_or_too_large(tmp_path: Path) -> None:
    from loupe.sources.images import ImageLimits

    (tmp_path / "a.csv").write_text("file_name,caption\nnone.jpg,a\nbig.jpg,b\n")
    (tmp_path / "big.jpg").write_bytes(b"\xff" * 2000)
    with served(tmp_path) as server:
        place = located(f"{server}/a.csv", "", tmp_path / "copies")
        rows = read_source(importer_for("csv"), place.annotations)
        found: list[InspectedImage | ImageProblem] = []
        for row in rows:
            assert isinstance(row, SourceRow)
            found += inspect_each(place.images, [row], ImageLimits(max_bytes=1000))
    assert [getattr(one, "reason", "") for one in found] == ["missing_image", "too_many_bytes"]


def test_addresses_are_shown_without_what_is_secret() -> None:
    address = "https://me:key@example.org/a/b.csv?X-Amz-Signature=1#f"
    assert shown_address(address) == "https://example.org/a/b.csv?…"
    assert shown_address("hf://datasets/a/b@v1") == "hf://datasets/a/b@v1"
