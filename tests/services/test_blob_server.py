import json
import logging
from io import BytesIO
from zlib import crc32

import numpy as np
import pytest
from PIL import Image
from starlette.testclient import TestClient

from loupe.schemas.errors import BlobMismatchError, MissingBlobError
from loupe.services.blob_server import create_app
from loupe.services.desk_server.loupe_desk.tickets import (
    LASTING,
    MANAGER,
    end_of_ticket,
    reader_of,
    ticket,
    with_tickets,
)

ORIGIN = "http://127.0.0.1:8080"
OPEN, CLOSED, DAMAGED, SVG, MISSING = (digit * 64 for digit in "abcde")
MEDIA_TYPES = {
    OPEN: "image/png",
    DAMAGED: "image/png",
    MISSING: "image/jpeg",
    SVG: "image/svg+xml",
}
TICKET = "anna's ticket"


def media_type_of(sha256: str, reader: int) -> str | None:
    assert reader == 7
    return MEDIA_TYPES.get(sha256)


def reader_of_ticket(given: str) -> int | None:
    return {TICKET: 7}.get(given)


def read(sha256: str, media_type: str) -> bytes:
    if sha256 == DAMAGED:
        raise BlobMismatchError("the blob at '/secret/place' is damaged")
    if sha256 == MISSING:
        raise MissingBlobError("nothing at '/secret/place'")
    return f"{media_type} {sha256[0]}".encode()


@pytest.fixture
def client() -> TestClient:
    app = create_app(read, media_type_of, reader_of_ticket, [ORIGIN])
    return TestClient(app, base_url="http://127.0.0.1:8090")


def test_an_image_of_an_open_task_is_served_with_its_media_type(client: TestClient) -> None:
    answer = client.get(f"/blobs/{TICKET}/{OPEN}")
    assert (answer.status_code, answer.content) == (200, b"image/png a")
    assert answer.headers["content-type"] == "image/png"
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert "sandbox" in answer.headers["content-security-policy"]


def test_only_pages_of_label_studio_may_read_images(client: TestClient) -> None:
    ours = client.get(f"/blobs/{TICKET}/{OPEN}", headers={"Origin": ORIGIN})
    foreign = client.get(f"/blobs/{TICKET}/{OPEN}", headers={"Origin": "https://example.org"})
    assert ours.headers["access-control-allow-origin"] == ORIGIN
    assert "access-control-allow-origin" not in foreign.headers


def test_other_people_in_a_crop_are_framed() -> None:
    buffer = BytesIO()
    Image.new("RGB", (60, 160), "white").save(buffer, "JPEG")
    client = client_of(buffer.getvalue())
    framed = client.get(f"/blobs/{TICKET}/{OPEN}?others=0.0,20,25.5,160;58,0,59,1")
    assert framed.headers["content-type"] == "image/jpeg"
    with Image.open(BytesIO(framed.content)) as shown:
        assert shown.size == (180, 480)
        green = np.asarray(shown.convert("RGB"))[300, [2, 120], 1]
    assert green[0] < 100 < green[1]
    for odd in ("", "1,2,3", "1,2,3,nan", "1,2,3,-4", ";".join(["1,2,3,4"] * 21)):
        assert client.get(f"/blobs/{TICKET}/{OPEN}?others={odd}").status_code == 400, odd


def client_of(data: bytes, media_type: str = "image/jpeg") -> TestClient:
    app = create_app(lambda *_: data, lambda *_: media_type, reader_of_ticket, [ORIGIN])
    return TestClient(app, base_url="http://127.0.0.1:8090")


@pytest.mark.parametrize("size", [(20_000, 1), (1, 1), (9000, 2)])
def test_a_small_image_of_any_shape_is_enlarged_within_limits(size: tuple[int, int]) -> None:
    buffer = BytesIO()
    Image.new("RGB", size, "white").save(buffer, "PNG")
    framed = client_of(buffer.getvalue(), "image/png").get(f"/blobs/{TICKET}/{OPEN}?others=0,0,1,1")
    with Image.open(BytesIO(framed.content)) as shown:
        assert size[0] * size[1] <= shown.width * shown.height <= 4_000_000


def png_of(width: int, height: int) -> bytes:
    """Return the beginning of an image that says to have this size."""
    buffer = BytesIO()
    Image.new("L", (8, 8)).save(buffer, "PNG")
    data = bytearray(buffer.getvalue())
    data[16:24] = width.to_bytes(4, "big") + height.to_bytes(4, "big")
    data[29:33] = crc32(data[12:29]).to_bytes(4, "big")
    return bytes(data)


@pytest.mark.parametrize("data", [png_of(60_000, 60_000), png_of(9000, 9000), png_of(80, 80), b"?"])
def test_an_image_that_cannot_be_drawn_within_limits_is_not_served(data: bytes) -> None:
    client = client_of(data, "image/png")
    assert client.get(f"/blobs/{TICKET}/{OPEN}?others=0,0,1,1").status_code == 500
    assert client.get("/health").is_success


def test_an_image_needs_a_ticket(client: TestClient) -> None:
    for path in (f"/blobs/{OPEN}", f"/blobs/{CLOSED}", f"/blobs/guessed/{OPEN}"):
        answer = client.get(path)
        assert (answer.status_code, "log in" in answer.text) == (401, True)


def test_a_ticket_is_valid_for_its_reader_until_its_end() -> None:
    now, key = 1_800_000_000.0, "k" * 64
    ends = end_of_ticket(now)
    assert 3600 <= ends - now <= 7200
    made = ticket(key, 7, ends)
    assert reader_of(key, made, now) == 7
    assert reader_of(key, made, ends) is None
    assert reader_of("another", made, now) is None
    forged = (made.replace("7-", "8-", 1), made.replace(str(ends), str(ends + 1)), made[:-1], "")
    assert [one for one in forged if reader_of(key, one, now) is not None] == []
    lasting = ticket(key, MANAGER, LASTING)
    assert reader_of(key, lasting, now) is None
    assert reader_of(key, lasting, now, lasting=True) == MANAGER


def test_only_addresses_of_our_images_get_a_ticket() -> None:
    ours = (
        f"http://127.0.0.1:8090/blobs/{OPEN}",
        f"http://localhost:9/blobs/{OPEN}?others=1,2,3,4",
    )
    page = f'<img src="{ours[0]}">'
    others = (
        f"http://127.0.0.1:8090/blobs/{OPEN}0",
        f"https://attacker.example/blobs/{OPEN}",
        f"http://127.0.0.1:8090/blobs/7-0-x/{OPEN}",
    )
    sent = json.dumps({"data": [*ours, page, *others]}).encode()
    for content in (sent, sent.replace(b"/", b"\\/")):
        shown = json.loads(with_tickets(content, "7-1-a"))["data"]
        assert shown[:2] == [one.replace("blobs/", "blobs/7-1-a/") for one in ours]
        assert shown[2] == page.replace("blobs/", "blobs/7-1-a/")
        assert shown[3:] == list(others)


def test_other_paths_are_not_served(client: TestClient) -> None:
    for path in (
        f"/blobs/{TICKET}/{CLOSED}",
        f"/blobs/{TICKET}/{SVG}",
        f"/blobs/{TICKET}/{OPEN.upper()}",
        f"/blobs/{TICKET}/{OPEN[:-1]}",
        f"/blobs/{TICKET}/{OPEN}.png",
        "/blobs/",
        "/blobs",
        "/",
        f"/blobs/{TICKET}/..%2f..%2fetc%2fpasswd",
        "/blobs/../../etc/passwd",
        "/docs",
    ):
        assert client.get(path).status_code == 404, path


def test_only_reading_is_possible(client: TestClient) -> None:
    assert client.head(f"/blobs/{TICKET}/{OPEN}").status_code == 200
    for method in ("POST", "PUT", "DELETE"):
        assert client.request(method, f"/blobs/{TICKET}/{OPEN}").status_code == 405


def test_a_damaged_or_missing_blob_is_reported_and_not_served(
    client: TestClient, caplog: pytest.LogCaptureFixture
) -> None:
    for sha256 in (DAMAGED, MISSING):
        caplog.clear()
        with caplog.at_level(logging.ERROR, logger="loupe.services.blob_server"):
            answer = client.get(f"/blobs/{TICKET}/{sha256}")
        assert answer.status_code == 500
        assert "/secret/place" not in answer.text
        assert sha256 in caplog.text
        assert "/secret/place" in caplog.text


def test_a_foreign_host_name_is_refused(client: TestClient) -> None:
    answer = client.get(f"/blobs/{TICKET}/{OPEN}", headers={"Host": "attacker.example"})
    assert answer.status_code == 400


def test_health_is_reported(client: TestClient) -> None:
    assert client.get("/health").json() == {"status": "ok"}
