"""A small store with rewrites to review."""

from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime
from io import BytesIO
from pathlib import Path

from PIL import Image as PillowImage

from loupe.db.blobs import BlobStore
from loupe.db.entities import ActivityRecord, NewEntity, new_entity
from loupe.db.entities import find as find_entities
from loupe.db.store import Store
from loupe.db.work import register_plan, store_activity
from loupe.schemas.base import EntityRecord
from loupe.schemas.faithfulness import Attribute, Fact, FaithfulnessReport, Finding
from loupe.schemas.provenance import Role
from loupe.schemas.records import Caption, Image, Rewrite

DATASET = "people"
SOURCE = "A woman in a red coat carries a black bag on her left shoulder."
REWRITE = "Wearing a blue coat, the woman has a black bag, and a hat."
_COLOURS = ("firebrick", "seagreen", "steelblue", "goldenrod", "slategray")


class World:
    """A store with blobs; `add` fills it."""

    def __init__(self, folder: Path) -> None:
        self.store = Store.open(f"sqlite:///{folder / 'loupe.db'}")
        self.blobs = BlobStore(str(folder / "blobs"))
        self._plan_id = register_plan(self.store, "world", "1", {})

    def add(
        self,
        text: str = REWRITE,
        source: str = SOURCE,
        suspect: bool = True,
        findings: Sequence[Finding] | None = None,
        picture: bytes | None = None,
        checked: bool = True,
    ) -> str:
        """Store an image, its description, a rewrite and a check; return the rewrite's id."""
        image = new_entity(self._image(text, picture), DATASET)
        caption = new_entity(
            Caption(source="street", text=source, position=0),
            DATASET,
            parents=[(Role.DESCRIBES, image.id)],
            group=image.id,
        )
        rewrite = new_entity(
            Rewrite(source="street", text=text, author="loupe-rule-rewriter@1"),
            DATASET,
            parents=[(Role.REWRITE_OF, caption.id)],
            split="test",
            group=image.id,
        )
        report = FaithfulnessReport(
            verdict="suspect" if suspect else "faithful",
            findings=tuple(findings if findings is not None else find(source, text, suspect)),
        )
        check = new_entity(report, DATASET, parents=[(Role.CHECKS, rewrite.id)], group=image.id)
        self.keep(image, caption, rewrite, *([check] if checked else []))
        return rewrite.id

    def add_rewrites(self, count: int) -> list[str]:
        """Store so many rewrites with different texts; return their ids."""
        return [self.add(f"{REWRITE} {number}") for number in range(count)]

    def states(self) -> Counter[str]:
        """Count the rewrites by state."""
        return Counter(entity.state for entity in find_entities(self.store, DATASET, "rewrite"))

    def keep(self, *entities: NewEntity) -> None:
        """Store entities."""
        now = datetime.now(UTC)
        activity = ActivityRecord(self._plan_id, DATASET, "", "", now)
        with self.store.write() as connection:
            store_activity(connection, activity, entities)

    def _image(self, text: str, picture: bytes | None) -> EntityRecord:
        data = picture or _picture(text)
        sha256 = self.blobs.put(data, "image/png")
        with PillowImage.open(BytesIO(data)) as opened:
            width_px, height_px = opened.size
        return Image(
            source="street",
            identity=sha256[:6],
            split="test",
            file_path=f"{sha256[:12]}.png",
            sha256=sha256,
            source_sha256=sha256,
            media_type="image/png",
            width_px=width_px,
            height_px=height_px,
        )


def find(source: str, text: str, suspect: bool) -> list[Finding]:
    """Return findings on the coats and hats of the two texts above, else none."""
    if not suspect or "blue coat" not in text or "red coat" not in source:
        return []
    return [
        Finding(
            change="contradicted",
            message="The coat is red in the description, blue in the rewrite.",
            source=_fact(source, "coat", Attribute.COLOUR, "red"),
            rewrite=_fact(text, "coat", Attribute.COLOUR, "blue"),
        ),
        Finding(
            change="added",
            message="The description knows no hat.",
            rewrite=_fact(text, "hat", Attribute.ACCESSORY, "hat"),
        ),
        Finding(
            change="lost",
            message="The left shoulder is left out.",
            source=_fact(source, "bag", Attribute.SIDE, "left"),
        ),
    ]


def _fact(text: str, subject: str, attribute: Attribute, word: str) -> Fact:
    start = text.index(word)
    return Fact(subject=subject, attribute=attribute, value=word, span=(start, start + len(word)))


def _picture(text: str) -> bytes:
    """Return an image that depends on the text."""
    seed = sum(map(ord, text))
    picture = PillowImage.new("RGB", (128, 256), _COLOURS[seed % len(_COLOURS)])
    picture.putpixel((seed % 128, seed // 128 % 256), (255, 255, 255))
    buffer = BytesIO()
    picture.save(buffer, "PNG")
    return buffer.getvalue()
