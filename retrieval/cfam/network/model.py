"""CFAM (UFineBench, section 5): CLIP, the granularity decoder, and the heads of its losses."""

from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.nn import functional

from retrieval.cfam.network.architecture import Architecture
from retrieval.cfam.network.backbone import ClipBackbone, Encoded
from retrieval.cfam.network.decoder import SharedGranularityDecoder, local_similarities
from retrieval.cfam.network.gathering import gathered
from retrieval.cfam.network.hard_negatives import Pairs, hard_pairs
from retrieval.cfam.network.losses.identity import identity
from retrieval.cfam.network.losses.info_nce import info_nce
from retrieval.cfam.network.losses.matching import matching
from retrieval.cfam.network.losses.similarity_distribution_matching import (
    similarity_distribution_matching,
)
from retrieval.cfam.network.matcher import IdentityHead, Matcher
from schemas.cfam import CfamLosses, CfamTraining

ParameterGroups = dict[Literal["pretrained", "new"], dict[str, nn.Parameter]]


class Cfam(nn.Module):
    """Cross-modal fine-grained aligning and matching.

    What no loss needs is not built: without `local_sdm` and `matching` there is no decoder, and so
    on. The random weights follow from `settings.seed` alone; torch's global generator is left as it
    was found.

    Args:
        settings: of the network and its losses.
        identities: how many identities M there are in training; they are numbered from 0.
        architecture: that of a checkpoint that will be loaded into this network; no pretrained
            weights are looked for then.

    Raises:
        ModelError: the backbone could not be built or its weights could not be loaded.
    """

    def __init__(
        self,
        settings: CfamTraining,
        identities: int,
        architecture: Architecture | None = None,
    ) -> None:
        super().__init__()
        self.settings = settings
        self.identities = identities
        with torch.random.fork_rng(devices=[]):
            torch.default_generator.manual_seed(settings.seed)
            self.backbone = ClipBackbone(settings.backbone, architecture)
            self.decoder = self._new_decoder()
            self.matcher = self._new_matcher()
            self.identity_head = self._new_identity_head()
        if settings.checkpoint_activations:
            self.backbone.checkpoint_activations()

    @property
    def dimension(self) -> int:
        """The length d of the global vectors."""
        return self.backbone.dimension

    def encode_images(self, pixels: Tensor) -> Tensor:
        """Global vectors of unit length, (B, d), of pixels (B, 3, H, W), for retrieval."""
        return functional.normalize(self.backbone.encode_images(pixels).pooled.float(), dim=-1)

    def encode_texts(self, tokens: Tensor) -> Tensor:
        """Global vectors of unit length, (B, d), of tokens (B, L), for retrieval."""
        return functional.normalize(self.backbone.encode_texts(tokens).pooled.float(), dim=-1)

    def forward(self, pixels: Tensor, tokens: Tensor, identities: Tensor) -> dict[str, Tensor]:
        """The losses that are switched on, by name, without their weights.

        The similarities and losses are computed in float32, whatever the network is cast to: a
        temperature of 0.02 makes fifty times as much of a rounding error. Of several processes,
        each takes them over the batches of all.

        Args:
            pixels: (B, 3, H, W), a batch of images.
            tokens: (B, L), the text of each.
            identities: (B,), whose they are, from 0 to M - 1.
        """
        images, texts = self.backbone.encode_images(pixels), self.backbone.encode_texts(tokens)
        fine = self._fine_grained(images, texts)
        images, texts, fine, identities = _of_all_processes(images, texts, fine, identities)
        with torch.autocast(pixels.device.type, enabled=False):
            similarities = _cosines(images.pooled.float(), texts.pooled.float())
            losses = self._aligning(similarities, fine, identities)
        if self.matcher is not None or self.identity_head is not None:
            pairs = hard_pairs(similarities, identities)
            losses |= self._judging(images, texts, fine, pairs, identities)
        return losses

    def parameter_groups(self) -> ParameterGroups:
        """What is trained, by name: the pretrained, and what starts random.

        With a backbone of random weights everything is new.
        """
        groups: ParameterGroups = {"pretrained": {}, "new": {}}
        for name, parameter in self.named_parameters():
            pretrained = name.startswith("backbone.") and not self.settings.backbone.starts_random
            if parameter.requires_grad:
                groups["pretrained" if pretrained else "new"][name] = parameter
        return groups

    def _new_decoder(self) -> SharedGranularityDecoder | None:
        if not self.settings.losses.fine_grained:
            return None
        return SharedGranularityDecoder(self.dimension, self.settings.decoder)

    def _new_matcher(self) -> Matcher | None:
        if not self.settings.losses.matching:
            return None
        return Matcher(self.settings.decoder.width, self.settings.matcher)

    def _new_identity_head(self) -> IdentityHead | None:
        if not self.settings.losses.identity:
            return None
        return IdentityHead(self.dimension, self.identities)

    def _fine_grained(self, images: Encoded, texts: Encoded) -> tuple[Tensor, Tensor] | None:
        if self.decoder is None:
            return None
        visual = self.decoder(images.tokens, images.padding)
        return visual, self.decoder(texts.tokens, texts.padding)

    def _aligning(
        self, similarities: Tensor, fine: tuple[Tensor, Tensor] | None, identities: Tensor
    ) -> dict[str, Tensor]:
        on = self.settings.losses
        losses: dict[str, Tensor] = {}
        if on.global_sdm:
            losses["global_sdm"] = similarity_distribution_matching(
                similarities, identities, on.temperature
            )
        if on.local_sdm and fine is not None:
            local = local_similarities(fine[0].float(), fine[1].float())
            losses["local_sdm"] = similarity_distribution_matching(
                local, identities, on.temperature
            )
        if on.info_nce:
            losses["info_nce"] = info_nce(similarities, on.temperature)
        return losses

    def _judging(
        self,
        images: Encoded,
        texts: Encoded,
        fine: tuple[Tensor, Tensor] | None,
        pairs: Pairs,
        identities: Tensor,
    ) -> dict[str, Tensor]:
        losses: dict[str, Tensor] = {}
        if self.matcher is not None and fine is not None:
            judged = self.matcher(fine[0][pairs.images], fine[1][pairs.texts])
            losses["matching"] = matching(judged.float(), pairs.matched)
        if self.identity_head is not None:
            named = self.identity_head(images.pooled[pairs.images], texts.pooled[pairs.texts])
            losses["identity"] = identity(named.float(), identities[pairs.images], pairs.matched)
        return losses


def total_loss(losses: dict[str, Tensor], weights: CfamLosses) -> Tensor:
    """The sum of the losses by their weights (UFineBench, equation of section 4.4)."""
    weight: dict[str, Any] = weights.model_dump()
    return torch.stack([weight[name] * loss for name, loss in losses.items()]).sum()


def _of_all_processes(
    images: Encoded, texts: Encoded, fine: tuple[Tensor, Tensor] | None, identities: Tensor
) -> tuple[Encoded, Encoded, tuple[Tensor, Tensor] | None, Tensor]:
    """What the losses need, of the whole batch; of local vectors only what the decoder read."""
    return (
        images._replace(pooled=gathered(images.pooled)),
        texts._replace(pooled=gathered(texts.pooled)),
        None if fine is None else (gathered(fine[0]), gathered(fine[1])),
        gathered(identities),
    )


def _cosines(images: Tensor, texts: Tensor) -> Tensor:
    return functional.normalize(images, dim=-1) @ functional.normalize(texts, dim=-1).T
