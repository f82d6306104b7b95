"""What speaks against the captions of groups: their words, and what the embedder makes of them."""

from collections.abc import Iterator, Sequence

from flows.context import RunContext
from flows.embedding import CachedEmbedder
from flows.task_images import stored_picture
from schemas.proposals import CaptionGroup
from schemas.refinement_request import StyleLimits
from stages.refine_captions.checks import check_group
from stages.refine_captions.two_way_check import check_preferences


class GroupChecks:
    """The checks of a run."""

    def __init__(self, context: RunContext, embedder: CachedEmbedder, limits: StyleLimits) -> None:
        self._context = context
        self._embedder = embedder
        self._limits = limits

    def doubts(self, groups: Sequence[CaptionGroup]) -> dict[CaptionGroup, tuple[str, ...]]:
        """What speaks against each group, a sentence each, the worst first."""
        preferences = self._preferences(groups)
        found = {}
        for group in groups:
            check = check_group(group, self._limits)
            unusable = (rejection.detail for rejection in check.unusable)
            found[group] = (*unusable, *preferences[group], *check.doubts)
        return found

    def _preferences(self, groups: Sequence[CaptionGroup]) -> dict[CaptionGroup, tuple[str, ...]]:
        """For each group the captions that the embedder cannot tell from other images'."""
        texts = [text for group in groups for text in _captions(group)]
        pictures = [member.picture for group in groups for member in group.members]
        if not texts:
            return {}
        text_rows = self._embedder.embed_texts(texts)
        image_rows = self._embedder.embed_images(
            [stored_picture(self._context, picture) for picture in pictures]
        )
        found: dict[CaptionGroup, tuple[str, ...]] = {}
        text, image = 0, 0
        for group in groups:
            rows, columns = len(group.coarse_captions), len(group.members)
            captions = text_rows[text : text + rows * columns].reshape(rows, columns, -1)
            own = image_rows[image : image + columns]
            sentences = (one.sentence for one in check_preferences(captions, own))
            found[group] = tuple(sentence for sentence in sentences if sentence)
            text, image = text + rows * columns, image + columns
        return found


def _captions(group: CaptionGroup) -> Iterator[str]:
    """Row by row, in each the images in their order."""
    for row in range(len(group.coarse_captions)):
        yield from (member.captions[row] for member in group.members)
