from itertools import chain
from pathlib import Path

import pytest
import torch
from pydantic import ValidationError
from torch import Tensor

from loupe.retrieval.cfam.network.model import Cfam, total_loss
from loupe.retrieval.cfam.network.pairs import ClipTokenizer
from loupe.schemas.cfam import CfamLosses, CfamTraining
from tests.retrieval.cfam.small_clip import (
    HEIGHT_PX,
    TEXT_TOKENS,
    WIDTH_PX,
    small_backbone,
    small_training,
)

NAMES = ["global_sdm", "local_sdm", "matching", "identity", "info_nce"]
ALL_ON = CfamLosses(info_nce=1.0)
IDENTITIES = torch.tensor([0, 1, 1, 2])
TEXTS = ["A man in a red coat!", "A woman with a bag.", "She has a blue bag.", "A boy."]
Batch = tuple[Tensor, Tensor, Tensor]


def only(*names: str) -> CfamLosses:
    return CfamLosses(**{name: float(name in names) for name in NAMES})


@pytest.fixture(scope="module")
def batch() -> Batch:
    generator = torch.Generator().manual_seed(0)
    pixels = torch.randn(4, 3, HEIGHT_PX, WIDTH_PX, generator=generator)
    return pixels, ClipTokenizer(TEXT_TOKENS)(TEXTS), IDENTITIES


@pytest.fixture
def settings(tmp_path: Path) -> CfamTraining:
    return small_training(tmp_path, losses=ALL_ON)


def test_only_modules_of_enabled_losses_are_built(
    subtests: pytest.Subtests, tmp_path: Path, batch: Batch
) -> None:
    for name in NAMES:
        with subtests.test(name=name):
            model = Cfam(small_training(tmp_path, losses=only(name)), 3)
            assert list(model(*batch)) == [name]
            built = {part for part, _ in model.named_children()}
            expected = {"local_sdm": {"decoder"}, "matching": {"decoder", "matcher"}}
            expected["identity"] = {"identity_head"}
            assert built == {"backbone", *expected.get(name, set())}


def test_every_parameter_receives_a_gradient(settings: CfamTraining, batch: Batch) -> None:
    model = Cfam(settings, 3)
    torch.autograd.backward(total_loss(model(*batch), ALL_ON))
    untouched = [
        name
        for name, parameter in model.named_parameters()
        if parameter.requires_grad and (parameter.grad is None or not parameter.grad.any())
    ]
    assert untouched == []


def test_disabling_all_losses_is_refused() -> None:
    with pytest.raises(ValidationError, match="every loss is switched off"):
        only()


def test_the_seed_determines_the_weights_without_the_global_generator(
    settings: CfamTraining,
) -> None:
    before = torch.get_rng_state()
    first = Cfam(settings, 3)
    assert torch.equal(torch.get_rng_state(), before)
    torch.rand(7)
    again = Cfam(settings, 3)
    other = Cfam(settings.model_copy(update={"seed": 1}), 3)
    for name, value in first.state_dict().items():
        assert torch.equal(value, again.state_dict()[name]), name
    assert not torch.equal(
        first.state_dict()["decoder.queries"], other.state_dict()["decoder.queries"]
    )


def test_the_decoder_shares_its_weights_between_images_and_texts(
    settings: CfamTraining, batch: Batch
) -> None:
    model = Cfam(settings.model_copy(update={"losses": only("local_sdm")}), 3)
    assert model.decoder is not None
    assert len([name for name, _ in model.named_parameters() if name.endswith(".queries")]) == 1
    images = model.backbone.encode_images(batch[0])
    texts = model.backbone.encode_texts(batch[1])
    gradients = []
    for encoded in (images, texts):
        model.decoder.zero_grad()
        torch.autograd.backward(
            model.decoder(encoded.tokens.detach(), encoded.padding).square().sum()
        )
        gradients.append([p.grad is not None and p.grad.any() for p in model.decoder.parameters()])
    assert len(gradients[0]) == len(list(model.decoder.parameters()))
    assert all(chain(*gradients))


def test_an_unshared_decoder_has_separate_weights_for_texts(
    settings: CfamTraining, batch: Batch
) -> None:
    own = settings.decoder.model_copy(update={"shared": False})
    model = Cfam(settings.model_copy(update={"losses": only("local_sdm"), "decoder": own}), 3)
    torch.autograd.backward(total_loss(model(*batch), only("local_sdm")))
    assert model.decoder is not None
    assert model.text_decoder is not None
    queries = [one.queries for one in (model.decoder, model.text_decoder)]
    assert not torch.equal(*queries)
    assert all(one.grad is not None and one.grad.any() for one in queries)


@torch.no_grad()
def test_padding_does_not_change_losses(settings: CfamTraining, batch: Batch) -> None:
    model = Cfam(settings, 3)
    pixels, tokens, identities = batch
    behind = torch.arange(TEXT_TOKENS) > tokens.argmax(dim=1, keepdim=True)
    plain, other = model(*batch), model(pixels, tokens.masked_fill(behind, 320), identities)
    for name in NAMES:
        assert torch.isclose(plain[name], other[name], atol=1e-5), name


@torch.no_grad()
def test_the_order_of_the_batch_does_not_matter(settings: CfamTraining, batch: Batch) -> None:
    model = Cfam(settings, 3)
    order = torch.tensor([2, 0, 3, 1])
    plain, turned = model(*batch), model(*(part[order] for part in batch))
    for name in NAMES:
        assert torch.isclose(plain[name], turned[name], atol=1e-4), name


def test_losses_are_float32_under_bfloat16_autocast(settings: CfamTraining, batch: Batch) -> None:
    model = Cfam(settings, 3)
    plain = model(*batch)
    with torch.autocast("cpu", torch.bfloat16):
        short = model(*batch)
    for name in NAMES:
        assert short[name].dtype == torch.float32
        assert torch.isclose(short[name], plain[name], rtol=0.1, atol=0.1), name


def test_parameter_groups_separate_pretrained_and_new_weights(
    settings: CfamTraining, tmp_path: Path
) -> None:
    scratch = Cfam(settings, 3).parameter_groups()
    assert scratch["pretrained"] == {}
    weights = tmp_path / "clip.pt"
    torch.save(Cfam(settings, 3).backbone.clip.state_dict(), weights)
    backbone = small_backbone(tmp_path, checkpoint=weights)
    tuned = Cfam(settings.model_copy(update={"backbone": backbone}), 3).parameter_groups()
    assert {name.split(".")[0] for name in tuned["pretrained"]} == {"backbone"}
    assert {name.split(".")[0] for name in tuned["new"]} == {
        "decoder",
        "identity_head",
        "log_scale",
        "matcher",
    }
    assert sorted([*tuned["pretrained"], *tuned["new"]]) == sorted(scratch["new"])
    assert not any("logit_scale" in name for name in scratch["new"])


def test_the_temperature_of_info_nce_is_learned_and_that_of_sdm_stays(
    settings: CfamTraining, batch: Batch
) -> None:
    losses = CfamLosses(info_nce=1, temperature=0.05)
    both = Cfam(settings.model_copy(update={"losses": losses}), 3)
    scale = both.parameter_groups()["new"]["log_scale"]
    assert scale.exp().item() == pytest.approx(20)
    found = both(*batch)
    found["info_nce"].backward()
    assert scale.grad is not None
    assert scale.grad.item() != 0
    with torch.no_grad():
        scale.add_(1)
    again = both(*batch)
    assert torch.equal(again["global_sdm"], found["global_sdm"])
    assert not torch.equal(again["info_nce"], found["info_nce"])


def test_the_total_loss_is_a_weighted_sum() -> None:
    losses = {"matching": torch.tensor(2.0), "identity": torch.tensor(3.0)}
    weights = CfamLosses(matching=0.5, identity=10)
    assert total_loss(losses, weights).item() == 31


def test_the_network_of_the_paper_has_its_shapes_and_parameters() -> None:
    paper = CfamTraining()
    backbone = paper.backbone.model_copy(update={"weights": None})
    with torch.device("meta"):  # without memory
        model = Cfam(paper.model_copy(update={"backbone": backbone}), 3500)
        pixels, tokens = torch.zeros(2, 3, 384, 128), torch.ones(2, 168, dtype=torch.long)
        images, texts = model.backbone.encode_images(pixels), model.backbone.encode_texts(tokens)
    assert images.tokens.shape == (2, 24 * 8 + 1, 512)
    assert texts.tokens.shape == (2, 168, 512)
    assert 160e6 < sum(parameter.numel() for parameter in model.parameters()) < 175e6
