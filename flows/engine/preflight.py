"""Checks before a run pays for anything: files, terms, prompts, keys, servers and models."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain

from db.calls import cost_rows
from flows.engine.context import RunContext
from flows.engine.importing import refusal_of_terms
from flows.engine.ledger import require_prices
from flows.engine.releasing import release_signer
from models.profiles.settings import Settings
from prompts.loader import load_prompt
from release.model_use import DEMONSTRATION_CITATION
from schemas.build import Build, SourceSpec, VideoSourceSpec
from schemas.errors import ConfigurationError, LoupeError
from schemas.profile import BuiltinDescriber, OpenAIChat, Profile
from services.diagnosis import Finding, ModelSpec, Verdict, check_specs, lacking
from sources.importer import importer_for


def check_build(
    settings: Settings, build: Build, profile: Profile, models: Sequence[ModelSpec]
) -> list[Finding]:
    """Check whether a run of `build` has what it needs; nothing is stored or paid for."""
    findings = [one for source in build.sources for one in _check_source(settings, source)]
    try:
        release_signer(settings)
    except ConfigurationError as error:
        findings.append(lacking("signing key", str(error), "loupe doctor"))
    if any(isinstance(one, BuiltinDescriber) for one in models):
        findings += [
            lacking(
                f"source {one.name}",
                "the built-in describer can only describe drawn people, not photographs",
                "choose a profile with a vision model, such as --profile hosted, or let people "
                'describe (descriptions_gate = "required")',
            )
            for one in build.sources
            if not (one.citation or "").startswith(DEMONSTRATION_CITATION)
        ]
    return [*findings, *_check_prompts(profile), *check_specs(models)]


def _check_prompts(profile: Profile) -> Iterator[Finding]:
    """Check the prompt files that the tables of a profile name."""
    tables = [table for table in profile.model_dump().values() if isinstance(table, Mapping)]
    for key, value in chain.from_iterable(table.items() for table in tables):
        if isinstance(value, str) and key.endswith("prompt"):
            try:
                load_prompt(value)
            except ConfigurationError as error:
                yield lacking(f"prompt {value}", str(error), "see docs/profiles.md")


def _check_source(settings: Settings, source: SourceSpec | VideoSourceSpec) -> Iterator[Finding]:
    """Check whether the files of a source exist and its terms permit a release."""
    subject, licence, name = f"source {source.name}", source.licence, "videos"
    if isinstance(source, SourceSpec):
        try:
            importer = importer_for(source.format)
        except LoupeError as error:
            yield lacking(subject, str(error), "see docs/build-files.md#formats")
            return
        name, licence = importer.format, licence or importer.licence
        missing = [path for path in (source.annotations, source.images) if not path.exists()]
        if missing:
            yield lacking(subject, f"there is no {missing[0]}", f"ls {missing[0].parent}")
    if refusal := refusal_of_terms(settings, source.name, name, licence or "", source.permitted_by):
        yield lacking(subject, refusal, "set licence or permitted_by in the build file")
    else:
        yield Finding(subject=subject, verdict=Verdict.OK, detail=f"terms: {licence}")


def require_ready(
    context: RunContext, build: Build, profile: Profile, models: Sequence[ModelSpec]
) -> None:
    """Stop a run that cannot finish, before anything is paid for.

    A server that has already answered for this dataset may be unavailable: possibly no further
    answer is needed from it.

    Raises:
        ConfigurationError: something is missing; the message lists everything that is.
    """
    for model in models:
        if isinstance(model, OpenAIChat):
            require_prices(model.ref, model.prices, context.budget)
    findings = check_build(context.settings, build, profile, models)
    wrong = [one for one in findings if one.verdict is not Verdict.OK]
    if not wrong:
        return
    answered = {
        row.model for row in cost_rows(context.store, build.dataset) if row.calls > row.failed
    }
    servers = {f"model {model.ref}" for model in models if isinstance(model, OpenAIChat)}
    gone = [one for one in wrong if one.subject in servers and one.subject[6:] in answered]
    for one in gone:
        context.progress.say(f"warning: {one.subject}: {one.detail}")
    if left := [one for one in wrong if one not in gone]:
        details = "; ".join(f"{one.subject}: {one.detail} ({one.remedy})" for one in left)
        raise ConfigurationError(f"the run cannot start, and no model was called: {details}")
