"""The servers behind Caddy: addresses and certificates."""

from pathlib import Path

import pytest
from starlette.testclient import TestClient

from loupe.schemas.errors import UsageError
from loupe.services.blob_server import create_app
from loupe.services.caddy import caddyfile
from loupe.services.desk_server.loupe_desk.tickets import with_tickets
from loupe.services.public import PublicSite, parse_public, public_site, save_public_site

SHA256 = "ab" * 32


def test_a_public_address_is_https_and_a_host_name() -> None:
    site = parse_public("https://Desk.example.org/")
    assert (site.origin(), site.origin("images")) == (
        "https://desk.example.org",
        "https://images.desk.example.org",
    )
    assert parse_public("https://desk.localhost:8443").origin("prefect").endswith(":8443")
    for wrong in (
        "http://desk.example.org",
        "desk.example.org",
        "https://desk.example.org/review",
        "https://192.0.2.7",
        "https://[2001:db8::1]",
        "https://desk.example.org:port",
        "https://ann@desk.example.org",
    ):
        with pytest.raises(UsageError, match="--public"):
            parse_public(wrong)


def test_only_names_of_this_machine_are_served_on_the_loopback_interface(tmp_path: Path) -> None:
    ports = {"": 8080, "images": 8090}
    local = caddyfile(tmp_path, PublicSite(url="https://desk.localhost:8443"), ports)
    assert local.count("bind 127.0.0.1") == local.count("tls internal") == len(ports)
    closed = caddyfile(tmp_path, PublicSite(url="https://desk.internal"), ports)
    assert ("bind" in closed, "tls internal" in closed) == (False, True)
    public = caddyfile(tmp_path, PublicSite(url="https://desk.example.org"), ports)
    assert ("bind" in public, "tls internal" in public) == (False, False)
    assert "https://images.desk.example.org {" in public
    assert "Strict-Transport-Security" in public


def test_the_public_address_is_kept_until_it_is_ended(tmp_path: Path) -> None:
    assert public_site(tmp_path) is None
    site = PublicSite(url="https://desk.example.org")
    save_public_site(tmp_path, site)
    assert public_site(tmp_path) == site
    save_public_site(tmp_path, None)
    assert public_site(tmp_path) is None


def test_images_come_from_the_public_host_for_those_who_come_through_it() -> None:
    content = f'{{"image": "http:\\/\\/127.0.0.1:8090\\/blobs\\/{SHA256}"}}'.encode()
    assert b"127.0.0.1:8090\\/blobs\\/T/" in with_tickets(content, "T")
    public = with_tickets(content, "T", "https://images.desk.example.org")
    assert f'"https://images.desk.example.org/blobs/T/{SHA256}"'.encode() in public


def test_the_image_server_answers_to_its_public_name_only_if_there_is_one() -> None:
    for hosts, status in ((["images.desk.example.org"], 200), ([], 400)):
        app = create_app(lambda *_: b"", lambda *_: None, lambda _: None, [], hosts)
        found = TestClient(app, base_url="http://images.desk.example.org").get("/health")
        assert found.status_code == status
