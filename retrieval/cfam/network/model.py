"""CFAM (UFineBench, section 4): CLIP, the granularity decoder, and the heads of its losses."""

from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor, distributed, nn
from torch.autograd import Function
from torch.nn import functional

from loupe.retrieval.cfam.network.backbone import Architecture, ClipBackbone, Encoded
from loupe.schemas.cfam import CfamDecoder, CfamLosses, CfamMatcher, CfamTraining

# CLIP's contrastive loss, where the paper's ablation starts. Its temperature is learned and is at
# least 0.01 (Radford et al. 2021, section 2.5).

_MOST_SCALE = 100.0


def info_nce(similarities: Tensor, scale: Tensor | float) -> Tensor:
    """The mean of both directions' cross-entropy of finding the partner in the batch.

    It ignores identities: another pair of the same person counts as wrong.

    Args:
        similarities: (B, B), images down, texts across, cosines.
        scale: by which similarities are multiplied: the reciprocal of the temperature.
    """
    logits = similarities * scale
    partners = torch.arange(len(logits), device=logits.device)
    images = functional.cross_entropy(logits, partners)
    texts = functional.cross_entropy(logits.T, partners)
    return (images + texts) / 2


# Similarity distribution matching (IRRA: Jiang and Ye, CVPR 2023, equations 3 to 5).


def similarity_distribution_matching(
    similarities: Tensor, identities: Tensor, temperature: float, epsilon: float = 1e-8
) -> Tensor:
    """The sum over both directions of the mean KL divergence KL(p ‖ q).

    p is the softmax of the similarities over the temperature, q the distribution that is uniform
    over the pairs of the same identity. `epsilon` keeps log q finite where q is zero.

    Args:
        similarities: (B, B), images down, texts across, cosines.
        identities: (B,), whose pair it is.
        temperature: by which similarities are divided.
        epsilon: added to q inside its logarithm.
    """
    same = (identities[:, None] == identities[None, :]).to(similarities.dtype)
    matching = same / same.sum(dim=1, keepdim=True)
    logarithm = (matching + epsilon).log()
    return _divergence(similarities / temperature, logarithm) + _divergence(
        similarities.T / temperature, logarithm
    )


def _divergence(logits: Tensor, logarithm_of_matching: Tensor) -> Tensor:
    predicted = functional.log_softmax(logits, dim=1)
    return (predicted.exp() * (predicted - logarithm_of_matching)).sum(dim=1).mean()


# The matching loss (UFineBench, section 4.3).


def matching(logits: Tensor, matched: Tensor) -> Tensor:
    """The mean binary cross-entropy of the prediction whether pairs match.

    The paper prints y log p + (1 - y)(1 - log p); computed is -[y log p + (1 - y) log(1 - p)],
    which must be meant.

    Args:
        logits: (P,), before the sigmoid.
        matched: (P,), true where the pair matches.
    """
    return functional.binary_cross_entropy_with_logits(logits, matched.to(logits.dtype))


# The cross-modal identity classifying loss (UFineBench, supplement 8).


def identity(logits: Tensor, identities: Tensor, matched: Tensor) -> Tensor:
    """The mean cross-entropy of the pairs' identities.

    Args:
        logits: (P, M + 1); the last class is for pairs that do not match.
        identities: (P,), from 0 to M - 1: whose the image of each pair is.
        matched: (P,), true where the pair matches.
    """
    nobody = logits.shape[1] - 1
    return functional.cross_entropy(logits, identities.where(matched, nobody))


# The pairs of the matching and the identity loss (UFineBench, section 4.3).


class Pairs(NamedTuple):
    """P pairs of a batch: its own, then each image's and each text's hardest negative.

    Attributes:
        images: (P,), rows of the batch.
        texts: (P,), rows of the batch.
        matched: (P,), true for the batch's own pairs, which come first.
    """

    images: Tensor
    texts: Tensor
    matched: Tensor


@torch.no_grad()
def hard_pairs(similarities: Tensor, identities: Tensor) -> Pairs:
    """The B pairs of a batch and up to 2B hard negatives.

    The negative of an image is the most similar text of *another* identity, that of a text the most
    similar such image; of equal ones the first. In a batch of one identity there are no negatives,
    and only the B pairs remain.

    Args:
        similarities: (B, B), images down, texts across.
        identities: (B,), whose pair it is.
    """
    rows = torch.arange(len(identities), device=identities.device)
    same = identities[:, None] == identities[None, :]
    others = similarities.detach().masked_fill(same, -torch.inf)
    with_negative = rows[~same.all(dim=1)]
    texts, images = others.argmax(dim=1), others.argmax(dim=0)
    paired_images = torch.cat([rows, with_negative, images[with_negative]])
    paired_texts = torch.cat([rows, texts[with_negative], with_negative])
    matched = torch.arange(len(paired_images), device=rows.device) < len(rows)
    return Pairs(paired_images, paired_texts, matched)


# The granularity decoder (UFineBench, section 4.2).


class GranularityDecoder(nn.Module):
    """K learned queries that read local vectors.

    CFAM has one for images and texts; in the ablation of table 9 each has its own.

    A block is the decoder block of Vaswani et al. (2017), normalised first: the queries attend to
    each other, then to the local vectors, then pass through an MLP.

    Args:
        dimension: the length d of the local vectors that come in.
        settings: queries K, blocks, width and heads.
    """

    def __init__(self, dimension: int, settings: CfamDecoder) -> None:
        super().__init__()
        width = settings.width
        self.queries = nn.Parameter(torch.randn(settings.queries, width) * width**-0.5)
        self.entrance = nn.Sequential(
            nn.LayerNorm(dimension),
            nn.Identity() if dimension == width else nn.Linear(dimension, width),
        )
        self.blocks = _blocks(nn.TransformerDecoderLayer, settings.blocks, width, settings.heads)
        self.normalisation = nn.LayerNorm(width)

    def forward(self, tokens: Tensor, padding: Tensor | None = None) -> Tensor:
        """The K fine-grained vectors of each sample, of shape (B, K, width).

        Args:
            tokens: local vectors, of shape (B, N, d).
            padding: (B, N), true where there is no token to be read.
        """
        local = self.entrance(tokens)
        found = self.queries.expand(len(tokens), -1, -1)
        for block in self.blocks:
            found = block(found, local, memory_key_padding_mask=padding)
        fine: Tensor = self.normalisation(found)
        return fine


def local_similarities(visual: Tensor, textual: Tensor) -> Tensor:
    """The mean over the K queries of the cosine of the pair, for every image and every text.

    The sum of K cosines is the inner product of the K concatenated unit vectors, so all pairs are
    one matrix product.

    Args:
        visual: (B_images, K, width).
        textual: (B_texts, K, width).

    Returns:
        (B_images, B_texts), within [-1, 1].
    """
    images = functional.normalize(visual, dim=-1).flatten(1)
    texts = functional.normalize(textual, dim=-1).flatten(1)
    return images @ texts.T / visual.shape[1]


# The heads that judge a pair: whether it matches, and which identity it shows.


class Matcher(nn.Module):
    """Distinguishes matching pairs by their fine-grained vectors (UFineBench, section 4.3).

    The 2K vectors of a pair, each with a learned embedding of its modality, pass through
    transformer blocks; the means of the visual and of the textual ones pass through an MLP.
    """

    def __init__(self, width: int, settings: CfamMatcher) -> None:
        super().__init__()
        self.modalities = nn.Parameter(torch.randn(2, width) * width**-0.5)
        self.blocks = _blocks(nn.TransformerEncoderLayer, settings.blocks, width, settings.heads)
        self.normalisation = nn.LayerNorm(width)
        self.judge = nn.Sequential(nn.Linear(2 * width, width), nn.GELU(), nn.Linear(width, 1))

    def forward(self, visual: Tensor, textual: Tensor) -> Tensor:
        """The logit that each pair matches, of shape (P,).

        Args:
            visual: (P, K, width), of the image of each pair.
            textual: (P, K, width), of its text.
        """
        queries = visual.shape[1]
        both = torch.cat([visual + self.modalities[0], textual + self.modalities[1]], dim=1)
        for block in self.blocks:
            both = block(both)
        both = self.normalisation(both)
        means = torch.cat([both[:, :queries].mean(dim=1), both[:, queries:].mean(dim=1)], dim=-1)
        logits: Tensor = self.judge(means).squeeze(-1)
        return logits


class IdentityHead(nn.Module):
    """Classifies the identity of a pair, or that it does not match (UFineBench, supplement 8).

    Args:
        dimension: the length d of the global vectors.
        identities: how many identities M there are; the last of the M + 1 classes is for pairs that
            do not match.
    """

    def __init__(self, dimension: int, identities: int) -> None:
        super().__init__()
        self.fusion = nn.Sequential(
            nn.Linear(2 * dimension, dimension), nn.LayerNorm(dimension), nn.GELU()
        )
        self.classes = nn.Linear(dimension, identities + 1)

    def forward(self, visual: Tensor, textual: Tensor) -> Tensor:
        """The logits of the M + 1 classes, of shape (P, M + 1), from vectors of shape (P, d)."""
        logits: Tensor = self.classes(self.fusion(torch.cat([visual, textual], dim=-1)))
        return logits


def _blocks(kind: type[nn.Module], count: int, width: int, heads: int) -> nn.ModuleList:
    """Transformer blocks, normalised first, with an MLP of four times their width."""
    return nn.ModuleList(
        kind(
            width,
            heads,
            dim_feedforward=4 * width,
            dropout=0.0,
            activation="gelu",
            batch_first=True,
            norm_first=True,
        )
        for _ in range(count)
    )


# Rows of all processes, so that losses see the whole batch on every process.


def gathered(rows: Tensor) -> Tensor:
    """The rows of all processes, in order; with one process, the rows themselves.

    Gradients flow back to the rows of every process. If all processes compute one loss from
    gathered rows, each gets the gradient of its own rows times the number of processes, and
    `DistributedDataParallel` takes the mean: the gradient of that loss over the whole batch.

    Args:
        rows: (B, …), as many on every process.
    """
    if not distributed.is_initialized() or distributed.get_world_size() == 1:
        return rows
    together: Tensor = _GatheredRows.apply(rows)  # type: ignore[no-untyped-call]
    return together


class _GatheredRows(Function):
    @staticmethod
    def forward(_: Any, rows: Tensor) -> Tensor:
        parts = [torch.empty_like(rows) for _ in range(distributed.get_world_size())]
        distributed.all_gather(parts, rows.contiguous())
        return torch.cat(parts)

    @staticmethod
    def backward(_: Any, *gradients: Tensor) -> Tensor:
        total = gradients[0].clone(memory_format=torch.contiguous_format)  # it is summed in place
        distributed.all_reduce(total)
        return total.chunk(distributed.get_world_size())[distributed.get_rank()]


# CFAM (UFineBench, section 4): CLIP, the granularity decoder, and the heads of its losses.

ParameterGroups = dict[Literal["pretrained", "new"], dict[str, nn.Parameter]]


class Cfam(nn.Module):
    """Cross-modal fine-grained aligning and matching.

    Parts that no loss needs are not built: without `local_sdm` and `matching` there is no decoder,
    and so on. The random weights depend on `settings.seed` only; torch's global generator is
    restored.

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
            size, on, decoder = self.dimension, settings.losses, settings.decoder
            separate = on.fine_grained and not decoder.shared
            self.decoder = GranularityDecoder(size, decoder) if on.fine_grained else None
            self.text_decoder = GranularityDecoder(size, decoder) if separate else None
            self.matcher = Matcher(decoder.width, settings.matcher) if on.matching else None
            self.identity_head = IdentityHead(size, identities) if on.identity else None
        starts_at = torch.tensor(1 / on.temperature).log()
        self.log_scale = nn.Parameter(starts_at) if on.info_nce else None
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

        Similarities and losses are computed in float32 whatever the network's dtype: a temperature
        of 0.02 multiplies rounding errors by fifty. With several processes, each computes the
        losses over the batches of all.

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
        """The trained parameters by name: pretrained, and randomly initialised.

        With a backbone of random weights all are new.
        """
        groups: ParameterGroups = {"pretrained": {}, "new": {}}
        for name, parameter in self.named_parameters():
            pretrained = name.startswith("backbone.") and not self.settings.backbone.starts_random
            if parameter.requires_grad:
                groups["pretrained" if pretrained else "new"][name] = parameter
        return groups

    def _fine_grained(self, images: Encoded, texts: Encoded) -> tuple[Tensor, Tensor] | None:
        if self.decoder is None:
            return None
        of_texts = self.decoder if self.text_decoder is None else self.text_decoder
        visual = self.decoder(images.tokens, images.padding)
        return visual, of_texts(texts.tokens, texts.padding)

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
        if self.log_scale is not None:
            scale = self.log_scale.exp().clamp(max=_MOST_SCALE)
            losses["info_nce"] = info_nce(similarities, scale)
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
    """The inputs of the losses for the whole batch; of local vectors only the decoder's output."""
    return (
        images._replace(pooled=gathered(images.pooled)),
        texts._replace(pooled=gathered(texts.pooled)),
        None if fine is None else (gathered(fine[0]), gathered(fine[1])),
        gathered(identities),
    )


def _cosines(images: Tensor, texts: Tensor) -> Tensor:
    return functional.normalize(images, dim=-1) @ functional.normalize(texts, dim=-1).T
