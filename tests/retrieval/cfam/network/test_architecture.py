import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from loupe.retrieval.cfam.network.backbone import read_architecture
from loupe.schemas.cfam import CfamBackbone
from loupe.schemas.errors import ModelError
from tests.retrieval.cfam.small_clip import ARCHITECTURE, small_backbone, write_architecture


def test_published_clip_architectures_are_accepted() -> None:
    for name, dimension in {"ViT-B-16": 512, "ViT-B-16-quickgelu": 512, "ViT-L/14": 768}.items():
        assert read_architecture(CfamBackbone(architecture=name))["embed_dim"] == dimension


def test_a_custom_architecture_is_read_from_its_file(tmp_path: Path) -> None:
    assert read_architecture(small_backbone(tmp_path)) == ARCHITECTURE


def test_unsupported_architectures_are_refused_with_the_reason(subtests: pytest.Subtests) -> None:
    cases: list[tuple[str, str]] = [
        ("ViT-B-17", "OpenCLIP knows no architecture 'ViT-B-17'"),
        ("RN50", "ResNet"),
        ("ViT-B-16-SigLIP", "timm_model_name"),
        ("coca_ViT-B-32", "multimodal"),
        ("xlm-roberta-base-ViT-B-32", "hf_model_name"),
    ]
    for name, reason in cases:
        with (
            subtests.test(name=name, reason=reason),
            pytest.raises(ModelError, match=reason),
        ):
            read_architecture(CfamBackbone(architecture=name))


CHANGES: list[tuple[Callable[[dict[str, Any]], Any], str]] = [
    (lambda content: content.pop("text_cfg"), "is not an OpenCLIP architecture"),
    (lambda content: content["text_cfg"].update(vocab_size=1000), "1000 tokens"),
    (lambda content: content["text_cfg"].update(pool_type="last"), "pooled by 'last'"),
    (lambda content: content["text_cfg"].update(no_causal_mask=True), "no_causal_mask"),
    (lambda content: content["vision_cfg"].update(attentional_pool=True), "attentional_pool"),
    (lambda content: content.update(vision_cfg=3), "is not an OpenCLIP architecture"),
]


def test_unsupported_architecture_files_are_refused_with_the_reason(
    subtests: pytest.Subtests, tmp_path: Path
) -> None:
    for change, reason in CHANGES:
        with subtests.test(reason=reason):
            content = copy.deepcopy(ARCHITECTURE)
            change(content)
            settings = small_backbone(tmp_path)
            write_architecture(tmp_path, content)
            with pytest.raises(ModelError, match=reason):
                read_architecture(settings)


def test_malformed_architecture_files_are_refused(
    subtests: pytest.Subtests, tmp_path: Path
) -> None:
    for case, content in enumerate((b"{", b"\xff\xfe", b"[]", b"null")):
        with subtests.test(case=case):
            settings = small_backbone(tmp_path)
            assert settings.architecture_file is not None
            settings.architecture_file.write_bytes(content)
            with pytest.raises(ModelError, match="architecture"):
                read_architecture(settings)


def test_a_missing_architecture_file_is_refused(tmp_path: Path) -> None:
    settings = small_backbone(tmp_path, architecture_file=tmp_path / "none.json")
    with pytest.raises(ModelError, match="cannot be read"):
        read_architecture(settings)
