"""Contrastive images from the web: found, downloaded and credited, or rejected with a reason.

The service and all hosts are local servers; a request to any other host fails.
"""

import io
import json
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from PIL import Image as Pictures

from loupe.annotate.backend import Desks
from loupe.db.entities import fetch, parents_of
from loupe.db.quarantine import quarantined
from loupe.demo.worlds.stills import StillsWorld
from loupe.flows.ccd.pipeline import ccd_pipeline
from loupe.flows.engine.context import BuildReport, RunContext
from loupe.flows.engine.pipeline import run_pipeline
from loupe.release.card.markup import as_text
from loupe.release.format.files import ATTRIBUTION
from loupe.release.verify import verify_release
from loupe.schemas.base import sha256_of
from loupe.schemas.contrast import FoundHit, FoundPicture
from loupe.schemas.image_search import DownloadSettings, OpenverseSearch
from loupe.schemas.profile import Profile
from loupe.schemas.proposals import Candidate
from loupe.schemas.provenance import Role
from loupe.schemas.records import Image, Source
from loupe.sources.web.downloading import ImageDownloader
from tests.flows.ccd_world import DATASET, contrast_build, contrast_profile, counted_model, entities
from tests.flows.drawn_stills import DrawnStills
from tests.flows.runs import new_run
from tests.flows.still_families import Family, families, proposing, source_of_anchors
from tests.servers.counting_server import CountingServer, counting_server
from tests.servers.search_server import SearchServer, search_server
from tests.sources.web.adversary import Adversary, answer, only_loopback, quick, redirect, serving

GPS, LATITUDE = 0x8825, {1: "N", 2: (52.0, 31.0, 12.0)}
SVG = b'<svg xmlns="http://www.w3.org/2000/svg" width="640" height="480"/>'
PAGE = b"<!DOCTYPE html><html><body>Please log in</body></html>"
NOBODY = "http://10.0.0.1"
NOT_REQUESTED = ("licence_not_permitted", "forbidden_by_robots")

Found = dict[str, list[dict[str, Any]]]
"""Results of a service by query."""


@pytest.fixture(scope="module")
def stills(drawn_stills: DrawnStills) -> StillsWorld:
    return drawn_stills(80)


@pytest.fixture(scope="module", autouse=True)
def no_other_hosts() -> Iterator[None]:
    """Fail if a socket of this process connects to another address than 127.0.0.1."""
    elsewhere: list[Any] = []
    connect = socket.socket.connect

    def checked(self: socket.socket, address: Any) -> None:
        if self.family != socket.AF_UNIX and address[0] != "127.0.0.1":
            elsewhere.append(address)
            raise ConnectionRefusedError("no other host may be no_other_hosts")
        connect(self, address)

    def looked_up(host: Any, *_: Any, **__: Any) -> Any:
        elsewhere.append(host)
        raise socket.gaierror(socket.EAI_NONAME, "no name may be looked up")

    lookup = socket.getaddrinfo
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(socket.socket, "connect", checked)
        patch.setattr(
            socket,
            "getaddrinfo",
            lambda host, *rest, **more: (
                lookup(host, *rest, **more) if host == "127.0.0.1" else looked_up(host)
            ),
        )
        yield
    assert elsewhere == []


@pytest.fixture(scope="module")
def shown_families(stills: StillsWorld) -> list[Family]:
    """Three anchors with two variants each."""
    return families(stills, 2, 2, 2)


def profile(model: CountingServer, service: SearchServer, host: Adversary) -> Profile:
    counted = counted_model(model.base_url)
    search = OpenverseSearch(provider="openverse", base_url=service.base_url)
    download = quick(host.port, timeout_seconds=10, connect_timeout_seconds=5)
    return contrast_profile(strategist=counted, refiner=counted, search=search, download=download)


def no_desks() -> Desks:
    raise AssertionError("no annotator may be asked")


def downloader(settings: DownloadSettings) -> ImageDownloader:
    return ImageDownloader(settings, allow=only_loopback)


def hit(url: str, licence: str | None, **values: Any) -> dict[str, Any]:
    """Return a result in the format of Openverse; `licence` is a code and a version."""
    code, _, version = (licence or "").partition(" ")
    terms = {"license": code, "license_version": version} if licence else {}
    page = f"https://example.org/{url.partition('?')[0].rpartition('/')[2]}"
    return {"url": url, "foreign_landing_url": page, "creator": "A. Painter", **terms, **values}


def with_place(picture: Path) -> bytes:
    """Return the picture with GPS coordinates in its EXIF data."""
    with Pictures.open(picture) as opened:
        exif = opened.getexif()
        exif[GPS] = LATITUDE
        buffer = io.BytesIO()
        opened.save(buffer, "JPEG", quality=95, exif=exif)
    return buffer.getvalue()


def world(stills: StillsWorld, shown_families: list[Family], host: Adversary) -> Found:
    """Set the replies of the host; return the results of each query."""
    first, second, third = shown_families

    def drawn(name: str) -> bytes:
        return (stills.image_root / name).read_bytes()

    robots = b"User-agent: *\nDisallow: /secret/\n"
    host.replies["/robots.txt"] = answer(robots, Content_Type="text/plain")
    base = f"http://127.0.0.1:{host.port}"
    variants = [one for family in shown_families for one in family.variants]
    host.replies |= {f"/{one.file_name}": answer(drawn(one.file_name)) for one in variants}
    host.replies |= {
        "/place.jpg": answer(with_place(stills.image_root / first.variants[0].file_name)),
        "/again.jpg": answer(drawn(second.first.file_name)),
        "/mature.jpg": answer(drawn(third.first.file_name)),
        "/drawing.svg": answer(SVG, Content_Type="image/svg+xml"),
        "/drawing.jpg": answer(SVG),
        "/page.jpg": answer(PAGE),
        "/broken.jpg": answer(drawn(variants[0].file_name)[:3000]),
        "/moved.jpg": redirect(f"/{first.variants[1].file_name}"),
        "/inside.jpg": redirect(f"{NOBODY}:{host.port}/metadata"),
        "/secret/a.jpg": answer(drawn(variants[0].file_name)),
    }
    by_nd = "https://creativecommons.org/licenses/by-nd/4.0/"
    query = {one.file_name: one.captions[0] for one in variants}
    return {
        query[first.variants[0].file_name]: [
            hit(f"{base}/nd.jpg", "by-nd 4.0"),
            hit(f"{base}/drawing.svg", "cc0 1.0"),
            hit(f"{base}/none.jpg", None),
            hit(f"{base}/place.jpg", "by 4.0", creator="Ann [*Smith*](x)"),
            hit(f"{base}/broken.jpg", "by 2.0"),
        ],
        query[first.variants[1].file_name]: [
            hit(f"{base}/inside.jpg?key=s3cr3t", "by 2.0"),
            hit(f"{base}/page.jpg", "cc0 1.0"),
            hit(f"{base}/moved.jpg", "by-sa 4.0", creator=None),
            hit(f"{base}/said-otherwise.jpg", "by 4.0", license_url=by_nd),
            hit(f"{base}/secret/a.jpg", "by 2.0"),
        ],
        query[second.variants[0].file_name]: [
            hit(f"{base}/nd2.jpg", "by-nc-nd 2.0"),
            hit(f"{base}/reserved.jpg", "All rights reserved"),
            hit(f"{base}/unknown.jpg", None),
            hit(f"{base}/gone.jpg", "by 2.0"),
            hit("ftp://127.0.0.1/a.jpg", "by 2.0"),
        ],
        query[second.variants[1].file_name]: [
            hit(f"{base}/again.jpg", "cc0 1.0"),
            hit(f"{base}/{second.variants[1].file_name}", "by-nc 2.0", creator="Bo"),
            hit(f"{base}/drawing.jpg", "by 2.0"),
            {"url": "", "license": "by"},
            hit(f"{base}/beyond.jpg", "by 2.0"),
        ],
        query[third.variants[0].file_name]: [],
        query[third.variants[1].file_name]: [
            hit(f"{base}/{third.variants[1].file_name}", "pdm 1.0", creator="C"),
            hit(f"http://127.0.0.2:{host.port}/a.jpg", "by 2.0"),
            hit(f"{base}/mature.jpg", "by 2.0", mature=True),
        ],
    }


REFUSED = {
    "nd.jpg": "licence_not_permitted",
    "drawing.svg": "not_an_image",
    "none.jpg": "licence_not_permitted",
    "broken.jpg": "truncated_image",
    "inside.jpg": "private_address",
    "page.jpg": "not_an_image",
    "said-otherwise.jpg": "licence_not_permitted",
    "secret/a.jpg": "forbidden_by_robots",
    "nd2.jpg": "licence_not_permitted",
    "reserved.jpg": "licence_not_permitted",
    "unknown.jpg": "licence_not_permitted",
    "gone.jpg": "http_status",
    "ftp://127.0.0.1/a.jpg": "not_an_address",
    "drawing.jpg": "not_an_image",
    "beyond.jpg": "http_status",
    "127.0.0.2:{port}/a.jpg": "private_address",
    "mature.jpg": "refused_content",
}
"""Reason of the rejection of every unusable hit, by a part of its address."""

CREDITS = {
    "place.jpg": ("CC-BY-4.0", "Ann [*Smith*](x)"),
    "moved.jpg": ("CC-BY-SA-4.0", None),
    "000028.jpg": ("CC-BY-NC-2.0", "Bo"),
    "000062.jpg": ("CC-PDM-1.0", "C"),
}
"""Licence and creator of every usable hit, by the end of its page's address."""


class Web(NamedTuple):
    """A benchmark built with images from the web, and its servers."""

    run: RunContext
    report: BuildReport
    service: SearchServer
    host: Adversary
    model: CountingServer
    build_again: Callable[[], BuildReport]

    @property
    def release(self) -> Path:
        return self.run.settings.home / "releases" / f"{DATASET}-0.1.0"

    @property
    def rows(self) -> list[dict[str, Any]]:
        """The released rows of contrastive images."""
        rows: list[dict[str, Any]] = json.loads((self.release / f"{DATASET}.json").read_text())
        return [row for row in rows if row["contrast"]]


@pytest.fixture(scope="module")
def web(
    stills: StillsWorld,
    shown_families: list[Family],
    migrated_sqlite: Path,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Web]:
    """The benchmark, built once (read-only)."""
    home = tmp_path_factory.mktemp("web")
    with (
        new_run(migrated_sqlite, home) as run,
        search_server() as service,
        serving() as host,
        counting_server(0, proposing(shown_families)) as model,
    ):
        service.results_of = world(stills, shown_families, host).__getitem__
        firsts = [one.first for one in shown_families]
        source = source_of_anchors(stills, firsts, home / "anchors.json")
        build = contrast_build(stills, anchors=None, methods=("search",), sources=(source,))

        def build_once() -> BuildReport:
            pipeline = ccd_pipeline(make_downloader=downloader)
            return run_pipeline(run, pipeline, build, profile(model, service, host), no_desks)

        yield Web(run, build_once(), service, host, model, build_once)


def test_permitted_images_are_released_with_licence_and_creator(web: Web) -> None:
    assert verify_release(web.release).problems == []
    pages = {f"https://example.org/{name}": credit for name, credit in CREDITS.items()}
    assert {row["source_url"]: (row["licence"], row["creator"]) for row in web.rows} == pages
    assert {row["source"] for row in web.rows} == {"openverse"}
    text = (web.release / ATTRIBUTION).read_text(encoding="utf-8")
    sections = {part.partition("\n")[0]: part for part in text.split("\n## ")}
    for page, (licence, creator) in pages.items():
        assert f"<{page}>" in sections[licence]
        assert as_text(creator or "creator not named") in sections[licence]
    candidates = entities(web.run, Candidate.kind, "accepted")
    origins = [one.record(Candidate).origin for one in candidates]
    assert {
        one.page: (one.licence, one.creator) for one in origins if one.method == "search"
    } == pages
    assert len(origins) == len(pages)


def test_the_lineage_of_an_image_leads_to_its_hit_and_its_service(web: Web) -> None:
    store = web.run.store
    images = [one for one in entities(web.run, Image.kind) if one.record(Image).contrast]
    assert len(images) == len(CREDITS)
    for image in images:
        record = image.record(Image)
        assert record.attribution is not None
        (candidate,) = parents_of(store, [image.id], Role.ACCEPTED_FROM)[image.id]
        (picture,) = parents_of(store, [candidate], Role.FOUND_AS)[candidate]
        (hit,) = parents_of(store, [picture], Role.DOWNLOADED_FROM)[picture]
        (service,) = parents_of(store, [image.id], Role.IMPORTED_FROM)[image.id]
        stored = fetch(store, [hit, service])
        assert stored[hit].record(FoundHit).hit.page_url == record.attribution.source_url
        assert stored[service].record(Source).name == record.source == "openverse"


def test_unusable_hits_are_quarantined_with_a_reason(web: Web) -> None:
    of_hits = [
        one
        for one in quarantined(web.run.store, DATASET)
        if one.stage not in ("search_images", "choose_candidates")
    ]
    reasons = {
        (one.context.get("url") or one.context["hit"]["image_url"]).rstrip("?…"): one.reason
        for one in of_hits
    }
    wanted = {name.format(port=web.host.port): reason for name, reason in REFUSED.items()}
    for name, reason in wanted.items():
        assert [found for url, found in reasons.items() if url.endswith(f"/{name}")] == [
            reason
        ] or reasons.get(name) == reason, name
    assert len(of_hits) == len(wanted)
    assert "s3cr3t" not in "".join(one.detail for one in of_hits)


def test_only_permitted_images_are_requested(web: Web) -> None:
    asked = set(web.host.paths())
    forbidden = {f"/{name}" for name, reason in REFUSED.items() if reason in NOT_REQUESTED}
    assert not asked & forbidden
    assert asked >= {"/place.jpg", "/moved.jpg", "/broken.jpg", "/inside.jpg", "/drawing.svg"}
    licences = {seen.parameters["license"] for seen in web.service.seen}
    assert licences == {"by,by-nc,by-nc-sa,by-sa,cc0,pdm"}


def test_released_images_record_their_download_and_terms(
    web: Web, stills: StillsWorld, shown_families: list[Family]
) -> None:
    images = [
        record
        for one in entities(web.run, Image.kind)
        if (record := one.record(Image)).contrast and record.attribution
    ]
    assert {one.attribution.licence_basis for one in images if one.attribution} == {"stated"}
    pictures = [one.record(FoundPicture) for one in entities(web.run, FoundPicture.kind)]
    assert {one.robots for one in pictures} == {"allowed"}
    assert sorted(one.redirects for one in pictures) == [0] * (len(pictures) - 1) + [1]
    assert all(one.url for one in pictures)
    sent = sha256_of(with_place(stills.image_root / shown_families[0].variants[0].file_name))
    (changed,) = (one for one in images if one.source_sha256 != one.sha256)
    assert changed.source_sha256 == sent, "the digest of the downloaded file is stored"


def test_gps_coordinates_of_an_image_are_removed(
    web: Web, stills: StillsWorld, shown_families: list[Family]
) -> None:
    sent = with_place(stills.image_root / shown_families[0].variants[0].file_name)
    with Pictures.open(io.BytesIO(sent)) as opened:
        assert dict(opened.getexif().get_ifd(GPS))
    files = [path for path in web.run.settings.home.rglob("*") if path.is_file()]
    assert not any(b"Exif" in path.read_bytes() for path in files if path.suffix != ".db")
    assert len(list((web.release / "images").iterdir())) == len(CREDITS) + 3


def test_a_second_run_sends_no_requests(web: Web) -> None:
    before = (list(web.service.seen), list(web.host.requests), +web.model.ledger.counts)
    again = web.build_again()
    assert (web.service.seen, web.host.requests, web.model.ledger.counts) == before
    assert again.release_id == web.report.release_id
