"""Load profiles: TOML files, validated, overridable by environment variables.

`LOUPE_PROFILE__REWRITE__MAX_CHARACTERS=500` overrides `rewrite.max_characters`. A value that is
valid JSON is parsed as JSON, so whole lists can be given too. A table `[server]` contains what all
models with `provider = "openai"` share. The first chat model of `[rewrite]` also judges rewrites,
and that of `[captioning]` captions, unless `[judge]` or `[caption_judge]` names another, or `false`
in its place turns it off.
"""

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from loupe.schemas.errors import ConfigurationError
from loupe.schemas.plugins import load_plugin, plugins
from loupe.schemas.profile import (
    CaptionJudgeSettings,
    ChatModelSpec,
    JudgeSettings,
    OpenAIChat,
    Profile,
    Sampling,
    VllmChat,
)
from loupe.schemas.text_files import read_toml
from loupe.schemas.validation import nearest_hint, validated

_FOLDER = Path(__file__).parent
_OVERRIDE = "LOUPE_PROFILE__"


def profile_names() -> list[str]:
    """Return the profiles that ship with Loupe."""
    return sorted(path.stem for path in _FOLDER.glob("*.toml"))


def load_profile(name_or_path: str, environment: Mapping[str, str] = os.environ) -> Profile:
    """Load the profile of that name, or from that TOML file.

    Raises:
        ConfigurationError: there is no such profile, or a key in it is unknown or invalid.
    """
    path = Path(name_or_path)
    if path.suffix != ".toml":
        path = _FOLDER / f"{name_or_path}.toml"
    if name_or_path in plugins("profiles"):
        path = Path(load_plugin("profiles", name_or_path))
    if "\0" not in name_or_path and not os.path.lexists(path):
        hint = nearest_hint(name_or_path, (*profile_names(), *plugins("profiles")))
        raise ConfigurationError(
            f"there is no profile {name_or_path!r}, and no .toml file of that path; {hint}"
        )
    values = read_toml(path, f"profile {name_or_path!r}")
    values.setdefault("name", path.stem)
    stated = values.get("server", {})
    stated = dict(stated) if isinstance(stated, dict) else {}
    _apply_overrides(values, environment)
    server = values.pop("server", {})
    if isinstance(server, dict) and stated.get("name", server.get("name")) != server.get("name"):
        server = _renamed(server, stated)
        _ask_only_server(values)
    _complete_servers(values, server)
    judge = values.pop("judge", {})
    of_captions = values.pop("caption_judge", False if judge is False else {})
    judges = {"judge": judge, "caption_judge": of_captions}
    asked = {key: stated for key, stated in judges.items() if stated is not False}
    for key, stated in asked.items():
        if not isinstance(stated, dict) or "model" in stated:
            values[key] = stated
    profile = validate_profile(values)
    for key in asked.keys() - values.keys():
        profile = _with_judge(profile, key, asked[key])
    return profile


def validate_profile(values: Mapping[str, Any]) -> Profile:
    """Validate `values` as a profile.

    Raises:
        ConfigurationError: a key is unknown, missing or invalid; the message names it.
    """
    return validated(Profile, values, f"profile {values.get('name', '?')!r}")


def _apply_overrides(values: dict[str, Any], environment: Mapping[str, str]) -> None:
    for variable, text in sorted(environment.items()):
        if not variable.startswith(_OVERRIDE):
            continue
        *path, last = variable.removeprefix(_OVERRIDE).lower().split("__")
        target = values
        for part in path:
            target = target.setdefault(part, {})
            if not isinstance(target, dict):
                raise ConfigurationError(f"{variable} goes through {part!r}, which is not a table")
        target[last] = _as_json(text)


_OF_A_NAME = ("revision", "prices")
"""Keys that belong to the model of a name, so that no other name inherits them."""
_UNSTATED = "unstated"


def _renamed(server: Mapping[str, Any], stated: Mapping[str, Any]) -> dict[str, Any]:
    """Return `[server]`, whose name a variable has changed, without what the old name had."""
    kept = {
        key: value
        for key, value in server.items()
        if key not in _OF_A_NAME or value != stated.get(key)
    }
    return {"revision": _UNSTATED, **kept}


def _ask_only_server(values: Any) -> None:
    """Let all models of `[server]` be the one that a variable names; equal ones are left out."""
    if isinstance(values, list):
        shared = [one for one in values if _uses_server(one)]
        for number, one in enumerate(shared):
            if number and one in values:
                values.remove(one)
    children = values.values() if isinstance(values, dict) else values
    if _uses_server(values):
        for key in ("name", *_OF_A_NAME):
            values.pop(key, None)
    for one in children if isinstance(values, dict | list) else ():
        _ask_only_server(one)


def _uses_server(values: Any) -> bool:
    """Tell whether `values` are those of a model whose address is that of `[server]`."""
    is_server = isinstance(values, dict) and values.get("provider") == "openai"
    return is_server and "base_url" not in values


def _complete_servers(values: Any, shared: Any) -> None:
    """Complete models behind a server with missing values from the table `[server]`.

    A model of another name does not inherit revision and prices.
    """
    if not isinstance(shared, dict):
        raise ConfigurationError(f"server must be a table; got {shared!r}")
    if isinstance(values, list):
        for one in values:
            _complete_servers(one, shared)
    elif isinstance(values, dict):
        if values.get("provider") == "openai":
            is_other = values.get("name", shared.get("name")) != shared.get("name")
            left_out = {*values, *(_OF_A_NAME if is_other else ())}
            values |= {key: value for key, value in shared.items() if key not in left_out}
        for one in values.values():
            _complete_servers(one, shared)


_JUDGING = Sampling(temperature=0.0, max_tokens=2048)


def _with_judge(profile: Profile, key: str, stated: Mapping[str, Any]) -> Profile:
    """Return the profile, in which the first chat model that writes judges as `stated`."""
    writers: dict[str, Sequence[ChatModelSpec]] = {
        "judge": profile.rewrite.models,
        "caption_judge": (profile.captioning.model, profile.contrast.refiner),
    }
    chat = (one for one in writers[key] if isinstance(one, OpenAIChat | VllmChat))
    first = next(chat, None)
    if first is None and not stated:
        return profile
    model = {"model": first.model_copy(update={"sampling": _JUDGING})} if first else {}
    form = JudgeSettings if key == "judge" else CaptionJudgeSettings
    judge = validated(form, {**model, **stated}, f"{key} of profile {profile.name!r}")
    return profile.model_copy(update={key: judge})


def _as_json(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text
