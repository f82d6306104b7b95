"""Release the dataset at the end of a run: facts, checks, versions and signature."""

import os
import stat
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from functools import cache, partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from loupe.annotate.audits import CHOICES_STAGE, Direction, choice_results
from loupe.annotate.queues import Queue, flag_reasons, load_queues, newest_reports
from loupe.annotate.statistics.agreement import Estimate, agreement
from loupe.annotate.statistics.label_errors import label_errors
from loupe.annotate.statistics.queue import shared_answers
from loupe.checks.rewrites import reading_checks
from loupe.db.annotations import GivenAnswer, count_annotations, given_answers
from loupe.db.configurations import AskedChecks, asked_checks, configurations_of
from loupe.db.decisions import decided_by_people
from loupe.db.entities import LIVE, StoredEntity, fetch, fetch_parents, find, pages
from loupe.db.quarantine import unused_answers
from loupe.db.release_rows import corrections_of, snapshot
from loupe.db.releases import (
    StoredRelease,
    current_mark,
    list_releases,
    note_inputs,
    release_after,
    withdrawn_items,
)
from loupe.db.review_audits import audited_draws
from loupe.db.reviews import count_tasks, gate_counts
from loupe.db.store import Store
from loupe.db.withdrawals import dataset_notices, list_withdrawals
from loupe.flows.engine.asked import made_with_others
from loupe.flows.engine.contamination import (
    comparison_with,
    contamination_inspection,
    dataset_called,
)
from loupe.flows.engine.context import BuildReport, RunContext
from loupe.flows.engine.embedding import CachedEmbedder, image_file, pinned
from loupe.flows.engine.quotas import quota_statistics
from loupe.flows.engine.release_facts import ReleaseFacts, release_facts
from loupe.flows.engine.report import Progress
from loupe.flows.engine.software import code_revision
from loupe.models.embedding import Vectors
from loupe.models.profiles.loader import load_profile
from loupe.models.profiles.settings import Settings
from loupe.release.build import Inspection, build_release, no_inspection
from loupe.release.card.strata import count_strata
from loupe.release.contamination import Certify, Checks, WrittenSample
from loupe.release.format.publishable import published_name
from loupe.release.format.row_files import ListedRelease
from loupe.release.format.signing import (
    SIGNATURE,
    Signature,
    Signer,
    add_signature,
    signer_from_pem,
)
from loupe.release.shortcuts import certify_build
from loupe.release.verify import verify_release
from loupe.retrieval.contrastive import ContrastiveSamples
from loupe.retrieval.distractors import mean_with_nearest
from loupe.retrieval.embeddings import unit_rows
from loupe.retrieval.logistic import guess_methods
from loupe.schemas.base import Record, canonical_json, digest_of
from loupe.schemas.build import Build
from loupe.schemas.embedding import PlainModelSpec
from loupe.schemas.errors import ConfigurationError, IntegrityError, UsageError
from loupe.schemas.grouping import grouped
from loupe.schemas.profile import FaithfulnessSettings
from loupe.schemas.proposals import ChoiceTest, Confusion
from loupe.schemas.provenance import Role
from loupe.schemas.quality import (
    CaptionCheck,
    ErrorStatistics,
    MeasuredJudge,
    summarise,
)
from loupe.schemas.records import Image
from loupe.schemas.release import (
    AgreementStatistics,
    ChoiceStatistics,
    GateStatistics,
    JudgeStatistics,
    Manifest,
    NearestStatistics,
    OriginalsStatistics,
    TextChecks,
    UnusedStatistics,
)
from loupe.schemas.taxonomy import Tier
from loupe.schemas.video import StageSettings
from loupe.schemas.wording import first_of, many

# Agreement between people in the review queues of a dataset

_DECIMALS = 3


def agreement_statistics(
    store: Store, settings: Settings, dataset: str
) -> tuple[AgreementStatistics, ...]:
    """Return a line for each queue and control with items that several people answered."""
    lines: list[AgreementStatistics] = []
    declared = load_queues(settings.queues_file)
    answered = {name for name, state in count_tasks(store) if state == "answered"}
    for queue in map(declared.queue_named, sorted(answered)):
        if queue.dataset != dataset:
            continue
        shared = shared_answers(store, queue.name)
        found = agreement(shared)
        people = len({annotator for item in shared for annotator in item.answers})
        measured = [
            ("choice", one.control, one.observed, one.krippendorff) for one in found.choices
        ]
        measured += [("text", one.control, one.similarity, Estimate()) for one in found.texts]
        lines += [
            AgreementStatistics(
                queue=queue.name,
                control=control,
                kind="choice" if kind == "choice" else "text",
                items=observed.items,
                annotators=people,
                observed=round(observed.value or 0.0, _DECIMALS),
                coefficient=_rounded(alpha.value),
                low=_rounded(alpha.low),
                high=_rounded(alpha.high),
            )
            for kind, control, observed, alpha in measured
            if observed.items
        ]
    return tuple(lines)


def error_statistics(store: Store, settings: Settings, dataset: str) -> tuple[ErrorStatistics, ...]:
    """Return the error of the labels of each queue of a dataset in which people answered."""
    declared = load_queues(settings.queues_file)
    answered = {name for name, state in count_tasks(store) if state == "answered"}
    queues = [declared.queue_named(name) for name in sorted(answered)]
    found = [label_errors(store, queue) for queue in queues if queue.dataset == dataset]
    return tuple(one.statistics for one in found if one is not None)


DRAWN_SPLIT = "drawn_split"
"""The stage of settings with the wanted share of identities for testing."""


def judge_statistics(
    store: Store, dataset: str, tier: Tier | None = None
) -> tuple[JudgeStatistics, ...]:
    """Compare the second opinions on the texts of a dataset with the rules and with people.

    With a `tier`, only those on captions of this tier of a benchmark of tasks.
    """
    objects: dict[tuple[str, str], bool] = {}
    beside_images = set[str]()
    for page in pages(find(store, dataset, CaptionCheck.kind)):
        checks = {one.id: one.record(CaptionCheck) for one in page if one.state != "inactive"}
        by_judges = {id_: check for id_, check in checks.items() if check.judge}
        parents = fetch_parents(store, by_judges, Role.EXAMINES)
        for id_, check in by_judges.items():
            (text,) = parents[id_]
            if text.kind == Confusion.kind and tier == "v0":  # asked about since v1
                continue
            key = str(check.judge), _caption_of(text)
            objects[key] = objects.get(key, False) or bool(check.warnings)
            if check.beside == "image":
                beside_images.add(key[1])
    texts = fetch(store, {text for _, text in objects})
    ids = [id_ for id_, one in texts.items() if one.state != "withdrawn"]
    reports = newest_reports(store, ids)
    with store.read() as connection:
        reviewed = decided_by_people(connection, ids)
    found: dict[tuple[str, bool], Counter[str]] = defaultdict(Counter)
    for (judge, id_), flagged in objects.items():
        is_rewrite = id_ in reports
        if texts[id_].state == "withdrawn" or not (is_rewrite or id_ in beside_images):
            continue
        counts = found[judge, is_rewrite]
        counts["texts"] += 1
        counts["flagged"] += flagged
        if is_rewrite:
            counts["as_rules"] += flagged == (reports[id_].verdict == "suspect")
        counts["reviewed"] += id_ in reviewed
        counts["as_people"] += id_ in reviewed and flagged == (texts[id_].state != "accepted")
    stated = (
        one.record(MeasuredJudge) for one in find(store, dataset, MeasuredJudge.kind, states=LIVE)
    )
    measured = {one.judge: one.measured for one in stated}
    return tuple(
        JudgeStatistics(
            judge=published_name(judge),
            measured=measured.get(judge) if is_rewrite else None,
            **counts,
        )
        for (judge, is_rewrite), counts in sorted(found.items())
    )


def _caption_of(text: StoredEntity) -> str:
    """Return the id of the caption that a judge was asked about, or of a group of captions."""
    asked = text.record(Confusion).caption_id if text.kind == Confusion.kind else None
    return asked or text.id


def _text_checks(asked: AskedChecks | None) -> TextChecks | None:
    """Return the checks of rewrites, and which of them read what a text states."""
    if asked is None:
        return None
    settings = FaithfulnessSettings.model_validate(asked.settings)
    return TextChecks(
        language=settings.language,
        checks=asked.checks,
        reading=reading_checks(asked.checks, settings),
    )


def _test_share(store: Store, dataset: str) -> float | None:
    """Return the share of identities for testing that the last run asked for, if it drew any."""
    drawn = [
        one.record(StageSettings).values["test_share"]
        for one in find(store, dataset, StageSettings.kind, states=LIVE)
        if one.record(StageSettings).stage == DRAWN_SPLIT
    ]
    return drawn[-1] if drawn else None


def _rounded(value: float | None) -> float | None:
    """Round to a number of decimals that is not affected by floating-point errors."""
    return None if value is None else round(value, _DECIMALS)


# Statistics of a release in addition to its counts.
#
# The similarity to the nearest other samples is measured only for contrastive benchmarks (CCD,
# table 1), with the model that their build uses to compare images.

_CHOICES = "choices"


def release_checks(
    store: Store,
    settings: Settings,
    dataset: str,
    embedder: PlainModelSpec | None = None,
    progress: Progress | None = None,
    facts: ReleaseFacts | None = None,
) -> Checks:
    """Return the checks of a dataset's next release.

    `embedder` is the specification of the model that compares samples (None: that of the current
    profile). It is loaded if a contrastive release is built and a vector is missing. `facts` are
    the stated facts of the release (None: those of the installation's file).
    """
    stated = facts or release_facts(settings.releases_file, dataset)
    queue = load_queues(settings.queues_file).queue(dataset, _CHOICES)
    asked = asked_checks(store, dataset)

    def nearest(samples: Sequence[WrittenSample]) -> NearestStatistics:
        spec = embedder or load_profile(settings.profile).contrast.embedder
        return measured_nearest(
            samples,
            CachedEmbedder(store, pinned(spec), progress or Progress(), settings=settings),
        )

    return Checks(
        nearest,
        choice_statistics(store, queue),
        errors=cache(partial(error_statistics, store, settings, dataset)),
        agreement=agreement_statistics(store, settings, dataset),
        judges=partial(judge_statistics, store, dataset),
        unused=_unused_statistics(store, dataset),
        gates=partial(_gate_statistics, store, dataset),
        originals=partial(_originals_statistics, store, dataset),
        quotas=partial(quota_statistics, store, dataset),
        about=stated.about,
        text_checks=_text_checks(asked),
        test_share=_test_share(store, dataset),
        of_persons=False if asked is not None and "person" not in asked.checks else None,
        permitted_terms=stated.permitted_terms,
        images=stated.images,
        certify=_certified_by(stated.accepted_shortcuts, progress),
        strata=count_strata,
    )


_TESTED = "testing whether the release can be scored without looking at it (docs/shortcuts.md)"


def _certified_by(accepted: Sequence[str], progress: Progress | None) -> Certify:
    """Return what certifies a release and refuses it for shortcuts that are not accepted."""
    said = partial(progress.say_once, _TESTED) if progress is not None else lambda: None
    return partial(certify_build, accepted=accepted, on_first=said)


def measured_nearest(
    samples: Sequence[WrittenSample], embedder: CachedEmbedder
) -> NearestStatistics:
    """Return the mean cosine of images and captions with their five nearest of other images.

    The same values for the anchors alone, with their coarse captions, describe the benchmark before
    contrastive images were added.
    """
    images = embedder.embed_images([image_file(one.sha256, one.file) for one in samples])
    anchors = [at for at, one in enumerate(samples) if one.contrast is None]

    def nearest_captions(captions: Sequence[tuple[str, ...]]) -> float | None:
        texts = [(image, text) for image, many in enumerate(captions) for text in many]
        if not texts:
            return None
        vectors = embedder.embed_texts([text for _, text in texts])
        return _mean_nearest(vectors, np.array([image for image, _ in texts], np.int64))

    return NearestStatistics(
        embedder=str(embedder.ref),
        images=_mean_nearest(images, np.arange(len(images))),
        captions=nearest_captions([one.captions for one in samples]),
        original_images=_mean_nearest(images[anchors], np.arange(len(anchors))),
        original_captions=nearest_captions([samples[at].coarse for at in anchors]),
        methods=guess_methods(images, _groups_of(samples)),
    )


def _mean_nearest(vectors: Vectors, image_of: NDArray[np.int64]) -> float | None:
    """Return the mean cosine of vectors with the nearest of other images."""
    if not len(vectors):
        return None
    return _rounded(mean_with_nearest(unit_rows(vectors, "the embeddings"), image_of))


def _groups_of(samples: Sequence[WrittenSample]) -> ContrastiveSamples:
    number = {one.file.name: at for at, one in enumerate(samples)}
    contrasts = [one.contrast for one in samples]
    anchors = [
        at if one is None else number[Path(one.anchor).name] for at, one in enumerate(contrasts)
    ]
    return ContrastiveSamples(
        tuple(number),
        np.array(anchors),
        tuple(one and one.difference for one in contrasts),
        methods=tuple(one and one.method for one in contrasts),
    )


def choice_statistics(store: Store, queue: Queue) -> tuple[ChoiceStatistics, ...]:
    """Return the accuracy of testers in forced-choice tests by direction; empty without tests."""
    tests = find(store, queue.dataset, ChoiceTest.kind)
    sizes = Counter(one.record(ChoiceTest).direction for one in tests if one.state != "withdrawn")
    if not sizes:
        return ()
    drawn = configurations_of(store, CHOICES_STAGE, None, queue.dataset)
    similar_by = {
        direction: tuple(dict.fromkeys(published_name(one[key]) for one in drawn))
        for direction, key in _SIMILARITY_OF_OPTIONS.items()
    }
    return tuple(
        ChoiceStatistics(
            **one._asdict(), size=sizes[one.direction], similar_by=similar_by[one.direction]
        )
        for one in choice_results(store, queue)
    )


_SIMILARITY_OF_OPTIONS: dict[Direction, str] = {
    "caption-to-image": "image_similarity",
    "image-to-caption": "caption_similarity",
}


def _unused_statistics(store: Store, dataset: str) -> tuple[UnusedStatistics, ...]:
    """Count unusable answers of the models that made a dataset; equal names are added."""
    counts: Counter[tuple[str, str, str]] = Counter()
    others = made_with_others(store, dataset)
    for one in unused_answers(store, dataset, without=others):
        counts[published_name(one.model), one.stage, one.reason] += one.answers
    return tuple(
        UnusedStatistics(model=model, stage=stage, reason=reason, answers=answers)
        for (model, stage, reason), answers in sorted(counts.items())
    )


def _gate_statistics(store: Store, dataset: str) -> tuple[GateStatistics, ...]:
    """Count who or what decided at the gates of a dataset."""
    found = grouped(
        (one.queue.removeprefix(f"{dataset}-"), one)
        for one in gate_counts(store, dataset)
        if one.entities
    )
    statistics = []
    for gate, counts in sorted(found.items()):
        of_policies = [one for one in counts if one.policy]
        answers = [
            one
            for one in given_answers(store, f"{dataset}-{gate}")
            if not one.gold and one.purpose != "audit"
        ]
        statistics.append(
            GateStatistics(
                gate=gate,
                by_people=sum(one.entities for one in counts if not one.policy),
                by_policy=tuple((one.policy, one.entities) for one in of_policies if one.entities),
                rejected=tuple((one.policy, one.rejected) for one in of_policies if one.rejected),
                people=len({one.person for one in answers}) or None,
                instructions=_by_instructions(answers),
            )
        )
    return tuple(statistics)


def _by_instructions(answers: Sequence[GivenAnswer]) -> tuple[tuple[str, int], ...]:
    """Count first opinions by the digest of their instructions, the oldest first.

    The instructions of adjudicators differ on purpose.
    """
    in_order = sorted(answers, key=lambda one: (one.annotated_at, one.annotation_key))
    counts = Counter(
        one.instructions for one in in_order if one.purpose == "review" and one.instructions
    )
    return tuple(counts.items())


def _originals_statistics(store: Store, dataset: str) -> tuple[OriginalsStatistics, ...]:
    """Count the captions of sources that a check flagged, by reason, and those left out."""
    reasons_of = flag_reasons(store, dataset)
    flagged, left_out = Counter[str](), Counter[str]()
    for id_, caption in fetch(store, reasons_of).items():
        if caption.state == "inactive":
            continue
        flagged.update(reasons_of[id_])
        left_out.update(() if caption.state in LIVE else reasons_of[id_])
    return tuple(
        OriginalsStatistics(reason=reason, flagged=count, left_out=left_out[reason])
        for reason, count in sorted(flagged.items())
    )


# Signing

_KEY, _FILE = "LOUPE_SIGNING_KEY", "LOUPE_SIGNING_KEY_FILE"
_MOST_BYTES = 64 * 1024  # bytes of a key; reading a device file would not end


def release_signer(settings: Settings) -> Signer | None:
    """Return a signer with the key that the settings name, or None if they name none.

    Raises:
        ConfigurationError: the key cannot be read, is not a key, or is set twice.
    """
    secret, file = settings.signing_key, settings.signing_key_file
    if secret is not None and file is not None:
        raise ConfigurationError(f"set {_KEY} or {_FILE}, not both")
    if secret is not None:
        return signer_from_pem(secret.get_secret_value().encode(), _KEY)
    if file is None:
        return None
    try:
        with file.open("rb") as opened:
            _require_private(os.fstat(opened.fileno()), file)
            pem = opened.read(_MOST_BYTES)
    except OSError as error:
        raise ConfigurationError(f"{_FILE}: {file} cannot be read ({error.strerror})") from error
    return signer_from_pem(pem, f"{_FILE} ({file})")


def _require_private(status: os.stat_result, file: Path) -> None:
    """Raise unless only its owner can read a private key, as `ssh` requires."""
    others = stat.S_IMODE(status.st_mode) & (stat.S_IRWXG | stat.S_IRWXO)
    if others and status.st_uid == os.geteuid():
        raise ConfigurationError(
            f"{_FILE}: {file} has the mode {stat.S_IMODE(status.st_mode):03o}, so other users may "
            f"read the key; restrict it with: chmod 600 {file}"
        )


def sign_release(folder: Path, signer: Signer) -> tuple[Signature, bool]:
    """Sign the release in `folder`, and return whether it was not yet signed with this key.

    Raises:
        UsageError: there is no release in `folder`, or it has a signature by another key.
        IntegrityError: it fails verification and should not be signed.
    """
    manifest = ListedRelease(folder).manifest
    problems = [one for one in verify_release(folder).problems if one.file != SIGNATURE]
    if problems:
        raise IntegrityError(
            f"{folder} is not signed because it is not sound: {problems[0].message}"
        )
    signature = signer.sign(manifest.id)
    return signature, add_signature(folder, signature)


# The release that replaced a version after a withdrawal


class PatchedRelease(NamedTuple):
    """The replacement of a version, and a sentence on why the version is not built again."""

    release: StoredRelease
    sentence: str


def patched_release(store: Store, dataset: str, version: str) -> PatchedRelease | None:
    """Return the release to use for a version that was released before and cannot be built again.

    Returns None if the version can be built: it was not released, or since then nothing was
    withdrawn from its dataset's releases, and no terms of its sources were corrected. Otherwise,
    some of its items are removed, other releases have notices that it lacks, or it states other
    terms.

    Raises:
        UsageError: items of it were withdrawn, and there is no replacement.
    """
    versions = (one for one in list_releases(store, dataset) if one.manifest.version == version)
    if (built := next(versions, None)) is None:
        return None
    raised = "raise the version of the dataset"
    if not _has_notices_since(store, built):
        if not (corrected := _sources_corrected_since(store, built)):
            return None
        return PatchedRelease(
            built,
            f"{built.name} stays as it is, under earlier terms of {', '.join(corrected)}; to "
            f"release it under the corrected terms, {raised}",
        )
    gone = withdrawn_items(store, built.manifest.id)
    instead = release_after(store, built) or (built if gone is None else None)
    name = f"{dataset} {version}"
    if instead is None:
        raise UsageError(
            f"items of {name} were withdrawn and nothing replaces it: continue with: loupe "
            f"withdraw --resume; if every withdrawal is finished, {raised}"
        )
    if instead.manifest.id == built.manifest.id:
        found = f"{name} stays as it is: nothing of it was withdrawn, only of other releases"
    else:
        why = "something of it" if gone else "something of a release beside it"
        found = f"{instead.name} replaces {name}: {why} was withdrawn"
    return PatchedRelease(
        instead, f"{found}; to release what was decided or brought in since, {raised}"
    )


def _sources_corrected_since(store: Store, built: StoredRelease) -> list[str]:
    """Return the names of the sources whose terms were corrected after a release."""
    shown = {one.entity_id: one.terms for one in built.manifest.sources}
    now = corrections_of(store, shown)
    return sorted({one.source for id_, (_, one) in now.items() if one.terms != shown[id_]})


def _has_notices_since(store: Store, built: StoredRelease) -> bool:
    """Tell whether the dataset's releases have notices of withdrawals later than `built`."""
    last = max((one.id for one in list_withdrawals(store)), default=0)
    with store.read() as connection:
        before, now = (
            dataset_notices(connection, built.manifest.dataset, mark)
            for mark in (built.mark.withdrawal, last)
        )
    return before != now


def release(
    context: RunContext,
    report: BuildReport,
    build: Build,
    version: str,
    tier: Tier | None = None,
    embedder: PlainModelSpec | None = None,
) -> None:
    """Build the release of the report's dataset under the home of the installation.

    `tier` is the tier of a benchmark of tasks. `embedder` compares the samples of
    a contrastive benchmark (None: that of the current profile). The release is compared with the
    datasets that the build names; the results are warnings in the report. If the settings name a
    key, the release is signed. If a withdrawal has replaced the version since, the replacement is
    used and reported. If terms of a source were corrected since, the version stays unchanged, which
    is reported as well.

    Raises:
        UsageError: nothing can be released, something of the version was withdrawn and nothing
            replaces it, the key to sign with cannot be read, or a
            dataset to compare with does not exist.
        IntegrityError: the version was released with other content.
        ModelError: the embedder cannot be loaded, or fails.
    """

    def warn(sentence: str) -> None:
        context.progress.say(f"warning: {sentence}")
        report.warnings.append(sentence)

    settings, store = context.settings, context.store
    if patched := patched_release(store, report.dataset, version):
        warn(patched.sentence)
        report.release = patched.release.folder
        _note_release(report, patched.release.manifest)
        return
    signer = release_signer(settings)
    facts = release_facts(settings.releases_file, report.dataset)
    checks = release_checks(store, settings, report.dataset, embedder, context.progress, facts)
    accepted = (*facts.accepted_shortcuts, *build.accepted_shortcuts)
    permitted = {one.name: one.permitted_by for one in build.sources if one.permitted_by}
    checks = checks._replace(
        permitted_terms={**checks.permitted_terms, **permitted},
        images=build.images or facts.images,
        certify=_certified_by(accepted, context.progress),
    )
    report.release = context.settings.home / "releases" / f"{report.dataset}-{version}"
    inspect: Inspection = no_inspection
    if build.against:
        others = [dataset_called(lambda: context, one) for one in build.against]
        checks = checks._replace(against=comparison_with(others))
        inspect = contamination_inspection(warn, refuse=False)
    inputs = None
    if not (build.against or signer):
        inputs = _inputs(context, report.dataset, version, tier, checks, accepted)
        if (known := _built_of(store, inputs, report.release)) is not None:
            report.was_released = True
            _note_release(report, known)
            _warn_of_uncaptioned(store, known, report.release, warn)
            return
    built = build_release(
        store,
        context.blobs,
        report.dataset,
        version,
        report.release,
        tier=tier,
        checks=checks,
        signer=signer,
        inspect=inspect,
    )
    if built.unsigned:
        warn(built.unsigned)
    if inputs and built.manifest.statistics.contrasts is None:  # whose nearest samples it lacks
        note_inputs(store, built.manifest.id, inputs, _listing(report.release))
    _note_release(report, built.manifest)
    _warn_of_uncaptioned(store, built.manifest, report.release, warn)


def _note_release(report: BuildReport, manifest: Manifest) -> None:
    report.release_id = manifest.id
    report.images = manifest.statistics.images
    report.captions = manifest.statistics.captions


_NAMED = 3


def _warn_of_uncaptioned(
    store: Store, manifest: Manifest, folder: Path, warn: Callable[[str], None]
) -> None:
    """Say how many images are not released because they have no caption, and name the first.

    Benchmarks of tasks and of contrasts count theirs in their statistics.
    """
    if manifest.tier is not None or manifest.statistics.contrasts is not None:
        return
    images = list(find(store, manifest.dataset, Image.kind, states=LIVE))
    if len(images) <= manifest.statistics.images:
        return
    released = {row["image_entity_id"] for row in ListedRelease(folder).rows(dict)}
    left = [one.record(Image).file_path for one in images if one.id not in released]
    are = "has no caption and is" if len(left) == 1 else "have no caption and are"
    warn(
        f"{len(left):,} of {many(len(images), 'image')} {are} not released: "
        f"{first_of(sorted(left), _NAMED)}"
    )


# A release is not built again if nothing that it depends on has changed


def _inputs(
    context: RunContext,
    dataset: str,
    version: str,
    tier: Tier | None,
    checks: Checks,
    accepted: Sequence[str],
) -> str:
    """Return the digest of everything that determines a release, except comparisons with others.

    Entities, decisions, activations, answers and withdrawals are append-only, so their last numbers
    identify their content, and what was decided at gates. Therefore any change to them, in any
    dataset, causes a rebuild.
    """
    with snapshot(context.store) as connection:
        mark = current_mark(connection)
        answers = count_annotations(connection)
        audits = map(summarise, audited_draws(connection, dataset))
        notices = dataset_notices(connection, dataset, mark.withdrawal)
        records = [*checks.choices, *checks.agreement, *checks.unused, *audits, *notices]
    others = [one.manifest for one in list_releases(context.store, dataset)]
    images = checks.images
    values = {
        "code": code_revision(),
        "name": [dataset, version, tier],
        "mark": mark,
        "answers": answers,
        "others": [one.id for one in others if one.version != version],
        "about": checks.about and checks.about.model_dump(mode="json"),
        "terms": dict(checks.permitted_terms),
        "images": images.model_dump() if isinstance(images, Record) else images,
        "accepted": accepted,
        "records": [one.model_dump(mode="json") for one in records],
    }
    return digest_of(canonical_json(values))


def _built_of(store: Store, inputs: str, folder: Path) -> Manifest | None:
    """Return the release in `folder` if it was built from `inputs` and no file has changed."""
    for known in list_releases(store):
        if known.inputs == inputs and known.folder.resolve() == folder.resolve():
            return known.manifest if known.listing == _listing(folder) else None
    return None


def _listing(folder: Path) -> str:
    """Return a digest of the names, sizes and times of all files below `folder`."""
    found = []
    for inside, _, names in os.walk(os.fsencode(folder)):
        for name in names:
            status = os.lstat(os.path.join(inside, name))  # noqa: PTH118 - fast, and any bytes
            found.append((inside, name, status.st_size, status.st_mtime_ns))
    return digest_of(repr(sorted(found)))
