"""What speaks against the captions of groups: their words, and what the embedder makes of them."""

from collections.abc import Iterator, Sequence

from db.decisions import NewDecision, append_decisions
from db.entities import StoredEntity, find
from db.work import WorkResult
from flows.context import RunContext
from flows.embedding import CachedEmbedder
from flows.report import StageReport
from flows.runner import Stage, run_stream
from flows.task_images import stored_picture
from schemas.proposals import CaptionGroup
from schemas.records import Rejection
from schemas.refinement_request import StyleLimits
from stages.refine_captions.checks import STAGE, VERSION, check_group
from stages.refine_captions.two_way_check import check_preferences


def refuse_unusable_groups(context: RunContext, dataset: str) -> StageReport:
    """Rejects accepted groups that cannot be released, whoever accepted them, and says why.

    What people write into a group is checked here first. Who answers anew, with other captions,
    makes another group, which is looked at again.
    """
    refused: list[tuple[int, tuple[StoredEntity, Rejection]]] = []
    for group in find(context.store, dataset, CaptionGroup.kind, states=("accepted",)):
        for rejection in check_group(group.record(CaptionGroup)).unusable[:1]:
            told = {**rejection.context, "group": group.id, "anchor": group.group}
            refused.append((group.seq, (group, rejection.model_copy(update={"context": told}))))
    report = _quarantined(context, dataset, refused)
    decisions = [
        NewDecision(group.id, "reject", context.software, f"it cannot be released: {why.detail}")
        for _, (group, why) in refused
    ]
    with context.store.write() as connection:
        append_decisions(connection, decisions)
    if refused:
        _, (group, why) = refused[0]
        context.progress.say(
            f"{len(refused):,} accepted groups cannot be released and are left out until their "
            f"captions are changed, the first {group.id[:12]}: {why.detail}"
        )
    return report


def _quarantined(
    context: RunContext,
    dataset: str,
    refused: Sequence[tuple[int, tuple[StoredEntity, Rejection]]],
) -> StageReport:
    stage = Stage(
        name=STAGE, version=VERSION, dataset=dataset, configuration={}, label="check groups"
    )

    def work(items: Sequence[tuple[int, tuple[StoredEntity, Rejection]]]) -> list[WorkResult]:
        return [WorkResult(number, rejection=why) for number, (_, why) in items]

    return run_stream(context, stage, refused, work, total=len(refused))


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
            unusable = (f"{one.detail} It cannot be released so." for one in check.unusable)
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
