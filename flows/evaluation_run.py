"""`evaluate`: models that a request names, scored on a release, and its leaderboard."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import TypeAdapter, ValidationError

from db.evaluations import Stored
from db.withdrawals import list_withdrawals
from flows.context import RunContext
from flows.evaluation import evaluate_release
from flows.leaderboard import FoundRelease, Leaderboard, collect, locate_release
from flows.leaderboard_page import Written, leaderboard_folder, render_markdown, write_leaderboard
from flows.withdrawn_releases import notices_known, withdrawal_of
from profiles.loader import load_profile
from retrieval.embedders import CHECKPOINT_FILES
from schemas.embedding import BuiltinEmbedder, BuiltinStillsEmbedder, EmbedderSpec
from schemas.errors import UsageError

_NAMED = re.compile(
    r"(?P<provider>open_clip|transformers|qwen-vl):(?P<name>.+?)(@(?P<revision>[^@]+))?"
)
_SPEC: TypeAdapter[Any] = TypeAdapter(EmbedderSpec)


class EvaluationRequest(NamedTuple):
    """What is to be scored on which release: one of the models' four ways to be named, or none.

    `release` is a folder, or a name as `loupe release show` takes it. `embedder` is `builtin`, or
    `PROVIDER:NAME@REVISION`; `checkpoint` the folder of a CFAM checkpoint; `embeddings` two `.npy`
    files, images and texts. Without any of them the embedders of `profile` are scored, without
    that those of the profile in force.
    """

    release: str
    profile: str | None = None
    checkpoint: str | None = None
    split: str | None = None
    check_images: bool = True
    embedder: str | None = None
    embeddings: tuple[Path, Path] | None = None
    name: str | None = None


@dataclass(frozen=True)
class EvaluationReport:
    """What a run came to: the evaluations, and the leaderboard with them."""

    dataset: str
    stored: tuple[Stored, ...]
    board: Leaderboard
    written: Written

    @property
    def artifact(self) -> str:
        """The key that the report stands under."""
        return f"{self.dataset}-leaderboard"

    @property
    def sentence(self) -> str:
        """The result in one sentence."""
        results = [one.evaluation.result for one in self.stored]
        direction = results[0].directions[0].direction
        told = [f"{one.model.ref} {one.directions[0].scores['R@1'].value:.1f} %" for one in results]
        return f"R@1 of {direction}: {', '.join(told)}; the leaderboard is {self.written.page}"

    @property
    def markdown(self) -> str:
        """The leaderboard."""
        return render_markdown(self.board)

    def as_json(self) -> dict[str, Any]:
        """The evaluations, for `--json`; `is_new` where an equal one was not stored before."""
        return {
            "dataset": self.dataset,
            "evaluations": [
                {
                    "id": one.evaluation.result.id,
                    "is_new": one.is_new,
                    "evaluated_at": one.evaluation.evaluated_at.isoformat(),
                    **one.evaluation.result.model_dump(mode="json"),
                }
                for one in self.stored
            ],
            "leaderboard": str(self.written.page),
        }


def run_evaluation(context: RunContext, request: EvaluationRequest) -> EvaluationReport:
    """Scores what `request` names, model by model, and writes the leaderboard below the home.

    Raises:
        LoupeError: see `flows.evaluation.evaluate_release`; models before a fault are stored.
    """
    found = locate_release(context.store, request.release)
    if found.folder is None:
        raise UsageError(
            f"the files of {found.manifest.dataset} {found.manifest.version} are not on this "
            f"machine any more; name the folder of a copy"
        )
    _warn_of_withdrawals(context, found)
    stored: list[Stored] = []
    for spec in requested_embedders(request, context.settings.profile):
        check = request.check_images and not stored  # once is enough
        stored.append(
            evaluate_release(context, found.folder, spec, split=request.split, check_images=check)
        )
    board = collect(context.store, str(found.folder), request.split)
    written = write_leaderboard(board, leaderboard_folder(context.settings.home, board))
    return EvaluationReport(found.manifest.dataset, tuple(stored), board, written)


def _warn_of_withdrawals(context: RunContext, found: FoundRelease) -> None:
    """Says what was withdrawn of the release, and what becomes of its vectors."""
    known = notices_known(context.settings.home, context.store)
    withdrawal = withdrawal_of(found.manifest, found.folder, known)
    if withdrawal is None:
        return
    erasing = {one.key for one in list_withdrawals(context.store) if one.request.erases}
    release = found.manifest.id
    kept = ""
    if any(one.release == release and one.withdrawal in erasing for one in known):
        kept = "; what was erased is embedded for this result alone, and its vectors are not kept"
    context.progress.say(f"warning: {withdrawal.sentence}{kept}")


def requested_embedders(request: EvaluationRequest, profile: str) -> tuple[EmbedderSpec, ...]:
    """The models that a request names; `profile` where it names none.

    Raises:
        UsageError: it names models in two ways, or none that there is.
    """
    ways = (request.profile, request.checkpoint, request.embedder, request.embeddings)
    if sum(way is not None for way in ways) > 1:
        raise UsageError(
            "name what is to be scored in one way: --profile, --embedder, --checkpoint or "
            "--embeddings"
        )
    if request.name is not None and not (request.checkpoint or request.embeddings):
        raise UsageError("--name is for --checkpoint and --embeddings; other models have one")
    if request.embeddings is not None:
        if request.name is None:
            raise UsageError("--embeddings needs --name: what to call the model on the leaderboard")
        images, texts = request.embeddings
        values = {"provider": "precomputed", "images": images, "texts": texts}
        return (_specified(values | {"name": request.name}, "--embeddings with --name"),)
    if request.checkpoint is not None:
        return (_cfam(Path(request.checkpoint), request.name),)
    if request.embedder is not None:
        return (named_embedder(request.embedder),)
    return load_profile(request.profile or profile).evaluation.embedders


def named_embedder(text: str) -> EmbedderSpec:
    """The embedder called `builtin` or `PROVIDER:NAME@REVISION`.

    Raises:
        UsageError: `text` is neither.
    """
    if text == "builtin":
        return BuiltinEmbedder()
    if text == "builtin-stills":
        return BuiltinStillsEmbedder()
    match = _NAMED.fullmatch(text)
    if match is None:
        raise UsageError(
            f"an embedder must be 'builtin', 'builtin-stills', or like "
            f"'open_clip:ViT-B-16-quickgelu@openai', "
            f"'transformers:google/siglip2-base-patch16-224@main' or 'qwen-vl:NAME@REVISION'; "
            f"got {text!r}"
        )
    return _specified(match.groupdict(default="main"), f"the embedder {text!r}")


def _cfam(folder: Path, name: str | None) -> EmbedderSpec:
    if not folder.is_dir():
        raise UsageError(f"there is no checkpoint in {folder}: it is not a folder")
    for file in CHECKPOINT_FILES:
        if not (folder / file).is_file():
            raise UsageError(f"there is no checkpoint in {folder}: it holds no {file}")
    values = {"provider": "cfam", "checkpoint": folder.absolute()}
    return _specified(values if name is None else values | {"name": name}, "--checkpoint")


def _specified(values: Mapping[str, object], what: str) -> EmbedderSpec:
    """The embedder with these values, which a user gave by `what`."""
    try:
        spec: EmbedderSpec = _SPEC.validate_python(values)
    except ValidationError as error:
        first = error.errors()[0]
        if first["loc"][-1] in ("name", "revision"):
            raise UsageError(
                f"{what}: a {first['loc'][-1]} must be at least one character, none of them a "
                f"control character; got {first['input']!r}"
            ) from error
        raise UsageError(f"{what}: {first['msg']}") from error
    return spec
