"""Published names, texts and parameters contain no paths and no keys."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
from hypothesis import example, given
from hypothesis import strategies as st

from loupe.db.entities import AgentRef, NewDecision, new_entity, register_agents
from loupe.db.store import Store
from loupe.release.build import build_release
from loupe.release.card.leaks import find_leaks
from loupe.release.card.model_use import model_uses
from loupe.release.contamination import Checks
from loupe.release.format.publishable import (
    HIDDEN,
    published_model,
    published_name,
    published_text,
    published_values,
)
from loupe.release.verify import verify_release
from loupe.retrieval.similarity.distances import ComparedImage
from loupe.schemas.chat import ModelRef
from loupe.schemas.provenance import CallRow, Role
from loupe.schemas.records import Caption, Rewrite
from loupe.schemas.release import NearestStatistics
from tests.release import ccd_world
from tests.release.worlds import GATE, Composer, World, model_call, store_world

SECRET = "planted-secret"
HOME = f"/home/{SECRET}"
LOCAL = ModelRef(name=f"{HOME}/my models/Qwen2-VL", revision="local")


def test_local_paths_and_private_urls_are_shortened() -> None:
    cases: list[tuple[str, str]] = [
        ("/data/ann/models/qwen@abc", "…/qwen@abc"),
        ("~/models/qwen", "…/qwen"),
        ("~ann", "…/ann"),
        (r"C:\Users\ann\qwen.pt", "…/qwen.pt"),
        (r"\\server\share\qwen.pt", "…/qwen.pt"),
        ("file:///data/ann/qwen.pt", "…/qwen.pt"),
        ("local-dir:/srv/clip@1", "…/clip@1"),
        ("folder:/srv/images/a.jpg", "…/a.jpg"),
        ("/data/ann/", "…/ann"),
        ("dir/0.jpg", "dir/0.jpg"),
        ("Qwen/Qwen-14B-Chat@abc", "Qwen/Qwen-14B-Chat@abc"),
        ("and/or", "and/or"),
        ("https://example.org/a?b=c", "https://example.org/a?b=c"),
        ("https://ann:pass@example.org/a", "https://example.org/a"),
        ("asked http://localhost:8000/v1 for it", "asked (withheld) for it"),
        ("http://gpu-box:8000/v1", "(withheld)"),
        ("http://10.0.0.7/v1", "(withheld)"),
        ("http://[::1]:80/", "(withheld)"),
        ("http://build.internal/x", "(withheld)"),
        ("postgresql://ann:pass@db/loupe", "(withheld)"),
        ("", ""),
    ]
    for text, wanted in cases:
        assert published_text(text) == wanted, (text, wanted)


def test_paths_and_keys_inside_texts_are_removed() -> None:
    cases: list[tuple[str, str]] = [
        ("ViT-B-16@local-dir:/data/bob/w", "ViT-B-16@…/w"),
        ("open_clip:ViT@/data/bob/w.pt", "open_clip:ViT@…/w.pt"),
        ("ViT@C:\\Users\\bob\\w.pt", "ViT@…/w.pt"),
        ("cannot read /data/alice/x.jpg", "cannot read …/x.jpg"),
        ("cannot read '/home/al ice/x.jpg': gone", "cannot read '…/x.jpg': gone"),
        ("first\n/data/alice/x.jpg\nlast", "first\n…/x.jpg\nlast"),
        ("…/data/alice/x", "…/data/alice/x"),
        ("wants ~alice/x", "wants …/x"),
        ("his/her, 3 / 4, about ~5, </s>, [/INST]", "his/her, 3 / 4, about ~5, </s>, [/INST]"),
        ("https://example.org/~ann/ViT@/data/bob/w.pt", "https://example.org/~ann/ViT@…/w.pt"),
        ("https://example.org/a?api_key=x&b=c", "https://example.org/a"),
        ("sent Authorization: Bearer abc123", f"sent Authorization: {HIDDEN}"),
        ("Bearer abc.def-123 is refused", f"{HIDDEN} is refused"),
        ("sk-abcdefgh12345678", HIDDEN),
        ('{"api_key": "abc", "n": 1}', f'{{"api_key": {HIDDEN}, "n": 1}}'),
    ]
    for text, wanted in cases:
        assert published_text(text) == wanted, (text, wanted)


words = st.text("ab /\\~:@.=?'\"<[…-…\n(C", max_size=12)
texts = st.lists(
    words | st.sampled_from(["file:", "http://", "https://a.org/", "Bearer a1", "key=", "secret"]),
    max_size=6,
).map("".join)


@given(texts)
@example("https://a.org@/http://x")
def test_publishing_is_idempotent(text: str) -> None:
    for published in (published_text, published_name):
        once = published(text)
        assert published(once) == once
    values = published_values({text: [text, {"a": text}], "name": text, "value": text})
    assert published_values(values) == values


_SECRET_FORMS = (
    *("/home/{}/w", "~{}/w", "C:\\Users\\{}\\w", "file:///srv/{}/w", "local-dir:/srv/{}/w"),
    *("http://{}:8000/v1", "https://{}:x@example.org/v1", "https://example.org/v1?a={}"),
)


@given(
    st.sampled_from(["", "ViT@", "open_clip:", "cannot read ", "a\n", "x='", "see (", "a, "]),
    st.sampled_from(_SECRET_FORMS),
    st.sampled_from(["", "@1", " is gone", "')", "\n"]),
)
def test_published_names_contain_no_paths(before: str, way: str, after: str) -> None:
    text = before + way.format(SECRET) + after
    assert SECRET not in published_name(text)
    assert SECRET not in str(published_values({"model": [text], text: 1}))


secret_names = st.sampled_from(
    [
        *("key", "api_key", "apiKey", "X-API-Key", "token", "hf_token", "accessToken", "tokens"),
        *("secret", "client_secret", "password", "Authorization", "credentials", "Cookie"),
        *("api_base", "openai_api_version", "key_file", "auth"),
    ]
).filter(lambda name: name != "openai_api_version")


@given(secret_names, st.lists(st.sampled_from(["mapping", "list", "pair", "named"]), max_size=4))
def test_nested_keys_are_not_published(name: str, above: list[str]) -> None:
    values: Any = {name: SECRET, "max_tokens": 7, "num_key_value_heads": 8}
    for way in above:
        match way:
            case "mapping":
                values = {"extra_body": values, name: {"x": SECRET}}
            case "list":
                values = [values, 1]
            case "pair":
                values = {"headers": [[name, SECRET], [f"--{name}", SECRET, "x"]], "b": values}
            case _:
                values = {"b": values, "c": {"name": name, "value": SECRET}}
    details = published_values(values)
    assert SECRET not in json.dumps(details)
    assert '"max_tokens": 7, "num_key_value_heads": 8' in json.dumps(details)
    assert published_values(details) == details


def test_model_names_are_equal_with_and_without_separate_revision() -> None:
    for name, revision in (
        ("Qwen/Qwen-14B-Chat", "abc"),
        (LOCAL.name, "1"),
        ("ViT-B-16", "local-dir:/data/bob/w"),
        ("Qwen/Qwen", "refs/pr/3"),
        (f"{HOME}@x/qwen", "1"),
    ):
        details = published_model(name, revision)
        assert "@".join(details) == published_name(f"{name}@{revision}")
        assert published_model(*details) == details
    assert published_model("annotator-7", "") == ("annotator-7", "")


def test_calls_that_differ_only_in_secrets_are_counted_together() -> None:
    calls = [
        CallRow(f"/home/{who}/qwen", "1", {"seed": 0, "api_key": who}, 3, 4, 0.5, "USD")
        for who in ("ann", "bob")
    ]
    (use,) = model_uses(calls, ["/data/eve/qwen@1"])
    assert (use.name, use.revision, use.parameters) == ("…/qwen", "1", {"seed": 0})
    assert (use.calls, use.tokens_in, use.cost) == (2, 6, "1")


def test_the_leak_certificate_names_embedders_without_paths() -> None:
    def image(name: str) -> ComparedImage:
        return ComparedImage(name, name, name, 0, None, np.array([1.0, 0.0]), f"{HOME}/fairmot@1")

    found = find_leaks({"train": [image("a")], "test": [image("b")]})
    assert [one.computed_by for one in found.comparisons][-1] == "…/fairmot@1"


def parameters() -> dict[str, Any]:
    return {
        "seed": 0,
        "extra_body": {"api_key": SECRET, "headers": [["authorization", f"Bearer {SECRET}"]]},
        "tokenizer": f"{HOME}/tokenizer",
        "proxy": f"https://ann:{SECRET}@example.org/v1?x={SECRET}",
    }


def planted_world(folder: Path, composer: Composer, image: str) -> World:
    """A world with a caption and its rewrite by a local model that was called with a key."""
    call = "e" * 32
    composer.calls[call] = {**model_call(call, LOCAL), "parameters": parameters()}
    draft = new_entity(
        Caption(source="x", text="A drafted man.", position=3, author=str(LOCAL)),
        composer.dataset,
        parents=[(Role.DESCRIBES, image), (Role.PROMPTED_BY, composer.prompt)],
        model_call=call,
    )
    rewrite = new_entity(
        Rewrite(source="x", text="Said again, about a man.", author=str(LOCAL)),
        composer.dataset,
        parents=[(Role.REWRITE_OF, draft.id), (Role.PROMPTED_BY, composer.prompt)],
        model_call=call,
    )
    for one in (draft, rewrite):
        composer.decisions.append(NewDecision(composer.add(one), "accept", GATE))
    url = f"sqlite:///{folder / 'loupe.db'}"
    store = Store.open(url)
    with store.write() as connection:
        register_agents(connection, [AgentRef.of_model(LOCAL)])
    store.close()
    return store_world(folder, composer.contents(), url=url)


def readable_contents(folder: Path) -> Iterator[tuple[str, bytes]]:
    """Contents of all files of a release, with Parquet files also as uncompressed text."""
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            yield str(path.relative_to(folder)), path.read_bytes()
        if path.suffix == ".parquet":
            yield str(path.relative_to(folder)), repr(pq.read_table(path).to_pylist()).encode()


def test_no_planted_secret_is_in_any_file_of_a_release(tmp_path: Path) -> None:
    composer, (group, *_) = ccd_world.benchmark(groups=2)
    dataset, image = ccd_world.CCD, group.anchor
    edited = ccd_world.contrast(
        composer, image, 77, 0, method="edit", editor=str(LOCAL), identity="100"
    )
    ccd_world.refine(composer, edited, ccd_world.COCO, "a green bus")
    nearest = NearestStatistics(embedder=str(LOCAL), images=0.5, captions=0.5)
    checks = Checks(nearest=lambda _samples: nearest)
    world = planted_world(tmp_path, composer, image)
    built = build_release(
        world.store, world.blobs, dataset, "1.0.0", tmp_path / "out", checks=checks
    )
    world.store.close()
    for path, content in readable_contents(built.folder):
        assert SECRET.encode() not in content, path
        assert b"my models" not in content, path
    assert verify_release(built.folder).problems == []
    use = next(one for one in built.manifest.models if one.revision == "local")
    assert use.name == "…/Qwen2-VL"
    assert use.parameters == {
        "seed": 0,
        "extra_body": {"headers": [["authorization", HIDDEN]]},
        "tokenizer": "…/tokenizer",
        "proxy": "https://example.org/v1",
    }
    (rows,) = [pq.read_table(path).to_pylist() for path in built.folder.glob("data/*.parquet")]
    authors = {author for row in rows for author in row["caption_authors"]}
    assert "…/Qwen2-VL@local" in authors
    texts = pq.read_table(built.folder / "lineage/entities.parquet").to_pylist()
    details = [one for one in texts if "…/Qwen2-VL@local" in (one["payload"] or "")]
    assert {one["kind"] for one in details} >= {"caption", "rewrite"}
    assert all(one["withheld"] for one in details)
    agents = pq.read_table(built.folder / "lineage/agents.parquet").to_pylist()
    assert ("…/Qwen2-VL", "local") in {(one["name"], one["revision"]) for one in agents}
