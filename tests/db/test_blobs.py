"""The blob store behaves the same on a local folder and on S3."""

import os
import threading
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import fsspec
import pytest

from loupe.db.blobs import BlobFault, BlobStore, suffix_of
from loupe.schemas.base import sha256_of
from loupe.schemas.errors import (
    BlobMismatchError,
    ConfigurationError,
    MissingBlobError,
    ServiceError,
)

DATA = b"the bytes of a picture"
JPEG = "image/jpeg"


@pytest.fixture(scope="session")
def s3_endpoint() -> Iterator[str]:
    """Start an S3-compatible server on localhost and return its URL."""
    from moto.server import ThreadedMotoServer  # not at the top, because it takes a second

    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    yield f"http://{host}:{port}"
    server.stop()


@pytest.fixture(params=["folder", "s3"])
def blobs_url(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> str:
    """URL of an empty blob store: a local folder or an S3 bucket."""
    if request.param == "folder":
        return str(tmp_path / "blobs")
    import boto3  # not at the top, because it takes half a second

    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "nobody")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "nothing")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    monkeypatch.setenv("AWS_ENDPOINT_URL", request.getfixturevalue("s3_endpoint"))
    bucket = f"bucket-{abs(hash(tmp_path))}"
    boto3.client("s3").create_bucket(Bucket=bucket)
    return f"s3://{bucket}/blobs"


@pytest.fixture
def blobs(blobs_url: str) -> BlobStore:
    return BlobStore(blobs_url)


def stored_files(url: str) -> list[str]:
    filesystem, root = fsspec.core.url_to_fs(url)
    filesystem.invalidate_cache()
    return [path.removeprefix(root) for path in filesystem.find(root)]


def test_bytes_are_stored_once_under_their_digest_and_read_back(
    blobs: BlobStore, blobs_url: str
) -> None:
    sha256 = sha256_of(DATA)
    assert not blobs.has(sha256, JPEG)
    with pytest.raises(MissingBlobError, match=sha256):
        blobs.read(sha256, JPEG)
    assert blobs.put(DATA, JPEG) == blobs.put(DATA, JPEG) == sha256
    assert stored_files(blobs_url) == [f"/sha256/{sha256[:2]}/{sha256}.jpg"]
    assert blobs.read(sha256, JPEG) == DATA
    assert blobs.has(sha256, JPEG)


def test_threads_that_store_the_same_bytes_do_not_conflict(tmp_path: Path) -> None:
    blobs = BlobStore(str(tmp_path / "blobs"))
    threads = [threading.Thread(target=blobs.put, args=(DATA, JPEG)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(stored_files(str(tmp_path / "blobs"))) == 1
    assert blobs.read(sha256_of(DATA), JPEG) == DATA


def damage(blobs: BlobStore, url: str, data: bytes) -> str:
    sha256 = blobs.put(DATA, JPEG)
    filesystem, _ = fsspec.core.url_to_fs(url)
    filesystem.pipe_file(blobs.path_of(sha256, JPEG), data)
    return sha256


def test_a_damaged_blob_is_reported_and_never_served(blobs: BlobStore, blobs_url: str) -> None:
    """A blob of the wrong size is replaced when its bytes are stored again."""
    for bytes_found in (DATA[:-1] + b"E", b"", DATA + b"more", DATA[:5]):
        sha256 = damage(blobs, blobs_url, bytes_found)
        with pytest.raises(BlobMismatchError, match=sha256_of(bytes_found)):
            blobs.read(sha256, JPEG)
    blobs.put(DATA, JPEG)
    assert blobs.read(sha256, JPEG) == DATA


def test_faults_of_a_blob_are_found_and_repaired(blobs: BlobStore, blobs_url: str) -> None:
    sha256 = sha256_of(DATA)
    assert blobs.fault_of(sha256, JPEG) is BlobFault.MISSING
    blobs.put(DATA, JPEG)
    assert blobs.fault_of(sha256, JPEG) is None
    assert [name for name, _ in blobs.stored()] == [f"{sha256}.jpg"]
    damage(blobs, blobs_url, DATA[:-1] + b"E")
    assert blobs.fault_of(sha256, JPEG) is BlobFault.DAMAGED
    assert blobs.put(DATA, JPEG, replace=True) == sha256
    assert blobs.read(sha256, JPEG) == DATA


def test_a_name_that_is_not_a_digest_is_refused(tmp_path: Path) -> None:
    blobs = BlobStore(str(tmp_path))
    for name in ("", "../../etc/passwd", "a" * 63, "A" * 64, "g" * 64, f"{'a' * 64}/..", "a" * 65):
        for use in (blobs.read, blobs.has, blobs.path_of):
            with pytest.raises(ConfigurationError, match="SHA-256 of 64 hex digits"):
                use(name, JPEG)


def test_a_failed_write_leaves_no_file(tmp_path: Path) -> None:
    blobs = BlobStore(str(tmp_path / "blobs"))
    sha256 = sha256_of(DATA)
    obstacle = tmp_path / "blobs" / "sha256" / sha256[:2] / f"{sha256}.jpg"
    obstacle.mkdir(parents=True)
    with pytest.raises(ServiceError, match=r"cannot write .* Is a directory"):
        blobs.put(DATA, JPEG)
    assert [path for path in (tmp_path / "blobs").rglob("*") if path.is_file()] == []


def test_partial_files_of_a_killed_process_are_removed_after_a_day(tmp_path: Path) -> None:
    incoming = tmp_path / "blobs" / "incoming"
    incoming.mkdir(parents=True)
    abandoned, growing, unknown = (incoming / name for name in ("blob-a", "blob-b", "not-ours"))
    for file in (abandoned, growing, unknown):
        file.write_bytes(b"half")
    for file in (abandoned, unknown):
        os.utime(file, (0, 0))
    BlobStore(str(tmp_path / "blobs"))
    assert sorted(incoming.iterdir()) == [growing, unknown]


def test_an_error_names_a_blob_store_that_cannot_be_used(blobs_url: str) -> None:
    with pytest.raises(ConfigurationError, match="'gopher://somewhere'"):
        BlobStore("gopher://somewhere")
    if blobs_url.startswith("s3://"):
        with pytest.raises(ServiceError, match="cannot write 'nowhere/x/"):
            BlobStore("s3://nowhere/x").put(DATA, JPEG)
    assert suffix_of("image/png") == ".png"
    assert suffix_of("application/../../x") == ".bin"


def test_erasing_a_blob_keeps_the_others(blobs_url: str) -> None:
    blobs = BlobStore(blobs_url)
    assert not blobs.erase(sha256_of(DATA), JPEG)
    erased, other = blobs.put(DATA, JPEG), blobs.put(b"another picture", JPEG)
    assert [blobs.erase(erased, JPEG) for _ in range(2)] == [True, False]
    assert not blobs.has(erased, JPEG)
    with pytest.raises(MissingBlobError):
        BlobStore(blobs_url).read(erased, JPEG)
    assert blobs.read(other, JPEG) == b"another picture"
    assert blobs.put(DATA, JPEG) == erased
    assert blobs.read(erased, JPEG) == DATA


def test_each_method_reports_that_s3_does_not_permit_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Others were opened with keys.
    monkeypatch.setattr(fsspec.get_filesystem_class("s3"), "cachable", False)
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "no-keys"))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    for key in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(key, raising=False)
    blobs, sha256 = BlobStore("s3://bucket/blobs"), sha256_of(DATA)
    for use in (blobs.has, blobs.read, blobs.fault_of, blobs.erase):
        with pytest.raises(ServiceError, match=r"cannot read 'bucket/blobs/.* credentials"):
            use(sha256, JPEG)
    uses: list[Callable[[], object]] = [
        partial(blobs.put, DATA, JPEG),
        partial(blobs.put_shard, sha256, DATA),
        partial(blobs.read_shard, sha256),
        partial(list, blobs.stored()),
    ]
    for use_other in uses:
        with pytest.raises(ServiceError, match="credentials"):
            use_other()
