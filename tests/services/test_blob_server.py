import logging
from io import BytesIO

import numpy as np
import pytest
from PIL import Image
from starlette.testclient import TestClient

from schemas.errors import BlobMismatchError, MissingBlobError
from services.blob_server import create_app

ORIGIN = "http://127.0.0.1:8080"
OPEN, CLOSED, DAMAGED, SVG, MISSING = (digit * 64 for digit in "abcde")
MEDIA_TYPES = {
    OPEN: "image/png",
    DAMAGED: "image/png",
    MISSING: "image/jpeg",
    SVG: "image/svg+xml",
}


def read(sha256: str, media_type: str) -> bytes:
    if sha256 == DAMAGED:
        raise BlobMismatchError("the blob at '/secret/place' is damaged")
    if sha256 == MISSING:
        raise MissingBlobError("nothing at '/secret/place'")
    return f"{media_type} {sha256[0]}".encode()


@pytest.fixture
def client() -> TestClient:
    app = create_app(read, MEDIA_TYPES.get, [ORIGIN])
    return TestClient(app, base_url="http://127.0.0.1:8090")


def test_an_image_of_an_open_task_is_served_with_its_media_type(client: TestClient) -> None:
    answer = client.get(f"/blobs/{OPEN}")
    assert (answer.status_code, answer.content) == (200, b"image/png a")
    assert answer.headers["content-type"] == "image/png"
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert "sandbox" in answer.headers["content-security-policy"]


def test_only_pages_of_label_studio_may_read_images(client: TestClient) -> None:
    ours = client.get(f"/blobs/{OPEN}", headers={"Origin": ORIGIN})
    foreign = client.get(f"/blobs/{OPEN}", headers={"Origin": "https://example.org"})
    assert ours.headers["access-control-allow-origin"] == ORIGIN
    assert "access-control-allow-origin" not in foreign.headers


def test_other_people_in_a_crop_are_framed() -> None:
    buffer = BytesIO()
    Image.new("RGB", (60, 160), "white").save(buffer, "JPEG")
    app = create_app(lambda *_: buffer.getvalue(), {OPEN: "image/jpeg"}.get, [ORIGIN])
    client = TestClient(app, base_url="http://127.0.0.1:8090")
    framed = client.get(f"/blobs/{OPEN}?others=0.0,20,25.5,160;58,0,59,1")
    assert framed.headers["content-type"] == "image/jpeg"
    with Image.open(BytesIO(framed.content)) as shown:
        assert shown.size == (180, 480)
        green = np.asarray(shown.convert("RGB"))[300, [2, 120], 1]
    assert green[0] < 100 < green[1]
    for odd in ("", "1,2,3", "1,2,3,nan", "1,2,3,-4", ";".join(["1,2,3,4"] * 21)):
        assert client.get(f"/blobs/{OPEN}?others={odd}").status_code == 400, odd


def test_other_paths_are_not_served(client: TestClient) -> None:
    for path in (
        f"/blobs/{CLOSED}",
        f"/blobs/{SVG}",
        f"/blobs/{OPEN.upper()}",
        f"/blobs/{OPEN[:-1]}",
        f"/blobs/{OPEN}.png",
        "/blobs/",
        "/blobs",
        "/",
        "/blobs/..%2f..%2fetc%2fpasswd",
        "/blobs/../../etc/passwd",
        "/docs",
    ):
        assert client.get(path).status_code == 404, path


def test_only_reading_is_possible(client: TestClient) -> None:
    assert client.head(f"/blobs/{OPEN}").status_code == 200
    for method in ("POST", "PUT", "DELETE"):
        assert client.request(method, f"/blobs/{OPEN}").status_code == 405


def test_a_damaged_or_missing_blob_is_reported_and_not_served(
    client: TestClient, caplog: pytest.LogCaptureFixture
) -> None:
    for sha256 in (DAMAGED, MISSING):
        caplog.clear()
        with caplog.at_level(logging.ERROR, logger="services.blob_server"):
            answer = client.get(f"/blobs/{sha256}")
        assert answer.status_code == 500
        assert "/secret/place" not in answer.text
        assert sha256 in caplog.text
        assert "/secret/place" in caplog.text


def test_a_foreign_host_name_is_refused(client: TestClient) -> None:
    answer = client.get(f"/blobs/{OPEN}", headers={"Host": "attacker.example"})
    assert answer.status_code == 400


def test_health_is_reported(client: TestClient) -> None:
    assert client.get("/health").json() == {"status": "ok"}
