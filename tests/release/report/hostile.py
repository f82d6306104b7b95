"""A release whose texts try to break out of HTML, scripts and templates."""

from pathlib import Path

from loupe.db.entities import new_entity
from loupe.release.build import build_release
from loupe.schemas.records import Granularity
from tests.release.worlds import Composer, source, store_world

TEXTS = (
    "</script><script>window.broken = 1</script>",
    '"><img src=x onerror="window.broken = 1">',
    "'); window.broken = 1; ('",
    "{{ 7 * 7 }} {% raw %} ${broken} <!-- ]]> \\u003c \\",
    "\u202eright to left\u202c \u2067 never ended",
    "line\u2028separators\u2029inside",
    "W" * 3000,
    "word " * 10_000 + "last",
    "\ufeffبلوزة زرقاء وحقيبة على كتفها",
    "一条街道上有一辆红色的公交车",
    "javascript:window.broken=1",
)
NAME = "<b>source</b>&amp;'\""


def hostile_release(home: Path) -> Path:
    """Build a release with one hostile text per image and return its folder."""
    world = Composer("hostile")
    of = source(
        NAME,
        Granularity.FINE,
        licence="CC0-1.0",
        citation="</title><script>window.broken = 1</script>",
        homepage="javascript:window.broken=1",
    )
    world.add(new_entity(of, "hostile"))
    for number, text in enumerate(TEXTS):
        image = world.image(of, str(number), f"<i>{number}</i>.jpg", sampled=False)
        caption = world.caption(image, of, text)
        world.rewrite(caption, f"{text} again")
    stored = store_world(home / "world", world.contents())
    try:
        out = home / "release"
        return build_release(stored.store, stored.blobs, "hostile", "1.0.0", out).folder
    finally:
        stored.store.close()
