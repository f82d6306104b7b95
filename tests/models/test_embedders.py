"""Embedders of real classes: equal to their libraries, with clear errors for unusable models."""

import json
import re
import subprocess
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
from pydantic import ValidationError

from loupe.models.embedding import Vectors
from loupe.models.registry import build_embedder, pinned
from loupe.models.transformers_embedder import Blip2Embedder, BlipFamily
from loupe.retrieval.score_matrix import greatest_cosines
from loupe.schemas.embedding import (
    BuiltinEmbedder,
    EmbedderSpec,
    MllmEmbedder,
    OpenClipEmbedder,
    TransformersEmbedder,
    directed,
    mllm_families,
)
from loupe.schemas.errors import ModelError
from tests.models import tiny_embedders
from tests.models.test_embedder_contract import IMAGES, TEXTS

pytestmark = pytest.mark.slow

PICTURES = [image.convert("RGB") for image in IMAGES[:2]]


def transformers_spec(folder: Path, **changes: object) -> TransformersEmbedder:
    values = {"provider": "transformers", "name": str(folder), "revision": "1", "device": "cpu"}
    return TransformersEmbedder.model_validate({**values, **changes})


def open_clip_spec(**values: object) -> OpenClipEmbedder:
    defaults = {"provider": "open_clip", "name": "x", "revision": "1", "device": "cpu"}
    return OpenClipEmbedder.model_validate({**defaults, **values})


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Folders of tiny models, by kind."""
    pytest.importorskip("torch")
    pytest.importorskip("open_clip")
    home = tmp_path_factory.mktemp("tiny")
    return {
        "open_clip": tiny_embedders.build_open_clip(home / "open_clip"),
        "clip": tiny_embedders.build_clip(home / "clip"),
        "blip2": tiny_embedders.build_blip2(home / "blip2"),
        "qwen2-vl": tiny_embedders.build_qwen2_vl(home / "qwen2-vl"),
    }


def test_open_clip_vectors_equal_those_of_the_library(folders: dict[str, Path]) -> None:
    import open_clip
    import torch

    name = f"local-dir:{folders['open_clip']}"
    network, preprocess = open_clip.create_model_from_pretrained(name)
    with torch.no_grad():
        pixels = torch.stack([preprocess(picture) for picture in PICTURES])
        images = network.eval().encode_image(pixels, normalize=True).numpy()
        texts = network.encode_text(open_clip.tokenize(list(TEXTS)), normalize=True).numpy()
    embedder = build_embedder(open_clip_spec(name=name))
    np.testing.assert_allclose(embedder.embed_images(PICTURES), images, atol=1e-5)
    np.testing.assert_allclose(embedder.embed_texts(TEXTS), texts, atol=1e-5)


def test_open_clip_loads_a_local_architecture_and_checkpoint(folders: dict[str, Path]) -> None:
    folder = folders["open_clip"]
    spec = open_clip_spec(
        architecture_file=folder / "tiny-clip-of-tests.json",
        checkpoint=folder / "open_clip_model.safetensors",
    )
    whole = build_embedder(open_clip_spec(name=f"local-dir:{folder}"))
    found = build_embedder(pinned(spec)).embed_texts(TEXTS)
    np.testing.assert_allclose(found, whole.embed_texts(TEXTS), atol=1e-6)


def test_unknown_open_clip_models_are_named(subtests: pytest.Subtests) -> None:
    cases: list[tuple[dict[str, object], str]] = [
        ({"name": "ViT-Q"}, "OpenCLIP could not load ViT-Q@1: Model config for 'ViT-Q' not found"),
        ({"name": "ViT-B-32", "revision": "none"}, "Pretrained value 'none' is not a known tag"),
        ({"name": "local-dir:nowhere"}, "nowhere"),
        ({"architecture_file": Path("none.json")}, "architecture file 'none.json' cannot be read"),
        ({"device": "cuda:99"}, "device 'cuda:99' cannot be used"),
    ]
    for values, sentence in cases:
        with subtests.test(sentence=sentence), pytest.raises(ModelError, match=sentence):
            build_embedder(open_clip_spec(**values))


def test_an_architecture_file_with_a_known_name_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "ViT-B-32.json"
    path.write_text(json.dumps(tiny_embedders.ARCHITECTURE), encoding="utf-8")
    with pytest.raises(ModelError, match="has the name of another architecture"):
        build_embedder(open_clip_spec(architecture_file=path))
    (tmp_path / "nothing.json").write_text("{}", encoding="utf-8")
    with pytest.raises(ModelError, match="must have the keys"):
        build_embedder(open_clip_spec(architecture_file=tmp_path / "nothing.json"))


def test_blip2_scores_equal_those_of_transformers(folders: dict[str, Path]) -> None:
    import torch
    import transformers

    library: Any = transformers
    network = library.Blip2ForImageTextRetrieval.from_pretrained(folders["blip2"]).eval()
    processor = library.AutoProcessor.from_pretrained(folders["blip2"])
    texts = ["a man in red shoes", "a woman"]
    inputs = processor(images=PICTURES, text=texts, padding=True, return_tensors="pt")
    mean = build_embedder(transformers_spec(folders["blip2"]))
    greatest = build_embedder(transformers_spec(folders["blip2"], scoring="maximum"))
    assert isinstance(mean, Blip2Embedder)
    with torch.no_grad():
        wanted = network(**inputs, use_image_text_matching_head=False).logits_per_image.numpy()
        judged = network(**inputs, use_image_text_matching_head=True).logits_per_image.numpy()
        queries = mean.query_vectors(PICTURES).numpy()
    found = greatest_cosines(greatest.embed_images(PICTURES), mean.embed_texts(texts), 16)
    np.testing.assert_allclose(found, wanted, atol=1e-5)
    pooled = queries.mean(axis=1)
    pooled /= np.linalg.norm(pooled, axis=1, keepdims=True)
    np.testing.assert_allclose(mean.embed_images(PICTURES), pooled, atol=1e-5)
    products = greatest.embed_images(PICTURES) @ greatest.embed_texts(texts).T
    cosines = queries @ mean.embed_texts(texts).T
    np.testing.assert_allclose(products, cosines.mean(axis=1), atol=1e-5)
    np.testing.assert_allclose(mean.judge(mean.see(PICTURES), texts), judged[:, 1], atol=1e-5)


def test_an_mllm_vector_is_the_last_hidden_state_of_the_prompt(folders: dict[str, Path]) -> None:
    import torch
    import transformers

    spec = directed(tiny_embedders.mllm_spec(folders["qwen2-vl"], "gme"), "texts")
    library: Any = transformers
    processor = library.AutoProcessor.from_pretrained(folders["qwen2-vl"])
    auto = library.AutoModelForImageTextToText.from_pretrained(folders["qwen2-vl"]).eval()
    prompt = (
        "<|im_start|>system\nFind an image that matches the given text.<|im_end|>\n"
        "<|im_start|>user\na man<|im_end|>\n<|im_start|>assistant\n<|endoftext|>"
    )
    with torch.no_grad():
        tokens = processor.tokenizer(prompt, return_tensors="pt")
        states = auto(**tokens, output_hidden_states=True).hidden_states[-1]
    wanted = states[0, -1] / states[0, -1].norm()
    found = build_embedder(cast("MllmEmbedder", spec)).embed_texts(["a man"])[0]
    np.testing.assert_allclose(found, wanted.numpy(), atol=1e-5)


def test_queries_and_candidates_have_different_prompts(folders: dict[str, Path]) -> None:
    neutral = tiny_embedders.mllm_spec(folders["qwen2-vl"], "rzen")
    query_specs = {side: directed(neutral, side) for side in ("images", "texts")}
    images = {side: _images(spec) for side, spec in query_specs.items()}
    assert np.abs(images["images"] - images["texts"]).max() > 1e-3
    np.testing.assert_array_equal(images["texts"], _images(neutral))
    assert directed(query_specs["texts"], "images") == query_specs["texts"]
    assert directed(BuiltinEmbedder(), "images") == BuiltinEmbedder()
    assert len({str(one.parameters) for one in (neutral, *query_specs.values())}) == 3


def _images(spec: EmbedderSpec) -> Vectors:
    return build_embedder(cast("MllmEmbedder", spec)).embed_images(PICTURES)


def test_families_define_their_checkpoints_and_prompts(subtests: pytest.Subtests) -> None:
    for name, family in mllm_families().items():
        with subtests.test(family=name):
            token = "<|image_pad|>" if family.model_type == "qwen2_vl" else "<image>"
            assert family.image_query.count(token) == family.image_candidate.count(token) == 1
            assert family.text_query.count("{text}") == family.text_candidate.count("{text}") == 1
            for checkpoint in family.checkpoints:
                spec = MllmEmbedder(provider="mllm", name=checkpoint, revision="main")
                assert spec.family == name
    with pytest.raises(ValidationError, match="must be one of gme, gme-mscoco-ccd"):
        MllmEmbedder(provider="mllm", name="somebody/else", revision="main")


def test_blip_and_align_scores_equal_those_of_transformers(tmp_path: Path) -> None:
    import torch
    import transformers

    library: Any = transformers
    texts = ["a man in red shoes", "a woman"]
    for kind, settings in (("blip", {"use_itm_head": False}), ("align", {})):
        folder = getattr(tiny_embedders, f"build_{kind}")(tmp_path / kind)
        classes = {"blip": "BlipForImageTextRetrieval", "align": "AlignModel"}
        network = getattr(library, classes[kind]).from_pretrained(folder)
        processor = library.AutoProcessor.from_pretrained(folder)
        filled = {"padding": "max_length", "max_length": 24, "truncation": True}
        inputs = processor(images=PICTURES, text=texts, **filled, return_tensors="pt")
        inputs.pop("token_type_ids", None)
        with torch.no_grad():
            found = network.eval()(**inputs, **settings)
            if kind == "align":
                found.itm_score = found.logits_per_image * network.temperature
        embedder = build_embedder(transformers_spec(folder))
        cosines = embedder.embed_images(PICTURES) @ embedder.embed_texts(texts).T
        np.testing.assert_allclose(cosines, found.itm_score.numpy(), atol=1e-4)
        if isinstance(embedder, BlipFamily):
            with torch.no_grad():
                judged = network(**inputs, use_itm_head=True).itm_score.numpy()
            found = embedder.judge(embedder.see(PICTURES), texts)
            np.testing.assert_allclose(found, judged[:, 1], atol=1e-4)


def test_a_qwen_vl_loads_from_the_published_weight_names(
    folders: dict[str, Path], tmp_path: Path
) -> None:
    """The weights lack the LM head and have the names that GME was saved with."""
    from safetensors.torch import load_file, save_file

    weights = load_file(folders["qwen2-vl"] / "model.safetensors")
    published = {}
    for name, tensor in weights.items():
        if name.startswith("lm_head"):
            continue
        bare = name.removeprefix("model.").removeprefix("language_model.")
        published[bare if bare.startswith("visual.") else f"model.{bare}"] = tensor
    assert {"visual", "model"} == {name.split(".")[0] for name in published}
    for file in folders["qwen2-vl"].iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    save_file(published, tmp_path / "model.safetensors", metadata={"format": "pt"})
    wanted = build_embedder(tiny_embedders.mllm_spec(folders["qwen2-vl"], "gme"))
    found = build_embedder(tiny_embedders.mllm_spec(tmp_path, "gme"))
    np.testing.assert_array_equal(found.embed_texts(TEXTS), wanted.embed_texts(TEXTS))


def test_a_llava_loads_from_the_published_weight_names(tmp_path: Path) -> None:
    """LLaVA-NeXT and OneVision are published with the parts beside each other."""
    from safetensors.torch import load_file, save_file

    for family, build in (
        ("bge-vl-mllm", tiny_embedders.build_llava_next),
        ("unime-llava-onevision", tiny_embedders.build_llava_onevision),
    ):
        folder = build(tmp_path / family)
        wanted = build_embedder(tiny_embedders.mllm_spec(folder, family))
        published = {}
        for name, tensor in load_file(folder / "model.safetensors").items():
            bare = name.removeprefix("model.")
            bare = re.sub(r"^vision_tower\.(?!vision_model)", "vision_tower.vision_model.", bare)
            bare = re.sub(r"^language_model\.(?!model|lm_head)", "language_model.model.", bare)
            published[re.sub("^lm_head", "language_model.lm_head", bare)] = tensor
        parts = {name.split(".")[0] for name in published}
        assert parts == {
            "image_newline", "language_model", "multi_modal_projector", "vision_tower"
        }  # fmt: skip
        save_file(published, folder / "model.safetensors", metadata={"format": "pt"})
        found = build_embedder(tiny_embedders.mllm_spec(folder, family))
        np.testing.assert_array_equal(found.embed_images(PICTURES), wanted.embed_images(PICTURES))


def test_images_of_a_family_are_resized_first(tmp_path: Path) -> None:
    folder = tiny_embedders.build_llava_next(tmp_path / "llava")
    embedder = build_embedder(tiny_embedders.mllm_spec(folder, "bge-vl-mllm"))
    square = [picture.convert("RGB").resize((512, 512)) for picture in PICTURES]
    np.testing.assert_allclose(
        embedder.embed_images(PICTURES), embedder.embed_images(square), atol=1e-5
    )


def test_a_model_of_another_class_is_refused(folders: dict[str, Path]) -> None:
    with pytest.raises(ModelError, match="is a 'qwen2_vl'; wanted one of 'align', 'altclip'"):
        build_embedder(transformers_spec(folders["qwen2-vl"]))
    with pytest.raises(ModelError, match="is a 'clip'; the family 'gme' wants a 'qwen2_vl'"):
        build_embedder(tiny_embedders.mllm_spec(folders["clip"], "gme"))


def test_a_missing_model_is_named(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=f"could not load .*{tmp_path.name}"):
        build_embedder(transformers_spec(tmp_path))


def test_missing_weights_are_named_instead_of_initialised(
    folders: dict[str, Path], tmp_path: Path
) -> None:
    from safetensors.torch import load_file, save_file

    for file in folders["clip"].iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    weights = load_file(tmp_path / "model.safetensors")
    del weights["text_projection.weight"]
    save_file(weights, tmp_path / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(ModelError, match=r"lacks weights: text_projection\.weight"):
        build_embedder(transformers_spec(tmp_path))


def test_a_folder_is_pinned_by_its_files(folders: dict[str, Path], tmp_path: Path) -> None:
    for file in folders["clip"].iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    spec = pinned(transformers_spec(tmp_path))
    assert isinstance(spec, TransformersEmbedder)
    command = "sha256sum *.json *.safetensors | sha256sum"  # as documented
    done = subprocess.run(["sh", "-c", command], cwd=tmp_path, capture_output=True, check=True)
    lines = done.stdout.decode()
    assert spec.folder_sha256 == lines.split()[0]
    assert pinned(spec) == spec
    build_embedder(spec)
    (tmp_path / "config.json").write_bytes((tmp_path / "config.json").read_bytes() + b"\n")
    with pytest.raises(ModelError, match=r"has the SHA-256 .*; wanted"):
        build_embedder(spec)


def test_checkpoints_are_pinned_by_their_digest(folders: dict[str, Path]) -> None:
    folder = folders["open_clip"]
    spec = pinned(open_clip_spec(name=f"local-dir:{folder}"))
    assert isinstance(spec, OpenClipEmbedder)
    assert spec.checkpoint_sha256
    build_embedder(spec)
    other = spec.model_copy(update={"checkpoint_sha256": "0" * 64})
    with pytest.raises(ModelError, match="wanted 0000"):
        build_embedder(other)
    with pytest.raises(ModelError, match=r"none\.safetensors' cannot be read"):
        pinned(open_clip_spec(checkpoint=Path("none.safetensors")))
    assert pinned(BuiltinEmbedder()) == BuiltinEmbedder()


def test_a_zero_vector_is_an_error(folders: dict[str, Path]) -> None:
    embedder = build_embedder(transformers_spec(folders["clip"]))
    import torch

    with torch.no_grad():
        embedder._model.text_projection.weight.zero_()  # type: ignore[attr-defined]
    with pytest.raises(ModelError, match="gives no direction for input 0"):
        embedder.embed_texts(["a man"])
