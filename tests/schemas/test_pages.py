from pathlib import Path

from loupe.release.card.documents import card_environment


def test_the_card_is_kept_compiled_beside_its_templates() -> None:
    environment = card_environment()
    source = environment.get_template("card.md.j2").filename
    assert source is not None
    kept = Path(environment.bytecode_cache.directory)  # type: ignore[union-attr]
    assert kept.parent == Path(source).parent
