"""Load prompts and check that they use exactly the variables they declare."""

from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Final

import frontmatter
import jinja2
import jinja2.meta
import jinja2.sandbox
import yaml
from jinja2 import nodes
from pydantic import Field

from loupe.schemas.base import Record, digest_of
from loupe.schemas.chat import ChatImage, ChatRequest
from loupe.schemas.errors import ConfigurationError
from loupe.schemas.validation import nearest_hint, validated

_FOLDER = Path(__file__).parent
_TEMPLATES = jinja2.sandbox.ImmutableSandboxedEnvironment(
    undefined=jinja2.StrictUndefined,
    autoescape=False,  # prompts are plain text for a model, not HTML
    keep_trailing_newline=False,
)
_ALLOWED: Final = (
    *(nodes.Template, nodes.Output, nodes.TemplateData, nodes.Const, nodes.Name),
    *(nodes.If, nodes.CondExpr, nodes.Compare, nodes.Operand, nodes.Not, nodes.And, nodes.Or),
)
"""What a prompt consists of: text, variables and conditions.

Everything else, which could run for ever or read attributes of objects, is refused.
"""


class PromptHeader(Record):
    """The front matter of a prompt file; `source` says where the instruction comes from."""

    id: str = Field(pattern=r"^[a-z][a-z0-9_]*$")
    version: str
    source: str
    variables: tuple[str, ...]


class Prompt(PromptHeader):
    """A prompt template. Its `digest` covers id, version and text, and is part of cache keys."""

    text: str

    @property
    def digest(self) -> str:
        """The identity of this prompt's wording, as 32 hex digits."""
        return digest_of(self.id, self.version, self.text)

    def render(self, **values: str) -> str:
        """Return the prompt with its variables filled in.

        Raises:
            ConfigurationError: the values do not match the declared variables.
        """
        if set(values) != set(self.variables):
            raise ConfigurationError(
                f"prompt {self.id!r} takes the variables {sorted(self.variables)}; "
                f"got {sorted(values)}"
            )
        return _compiled(self.text).render(values)

    def request(
        self,
        purpose: str,
        values: Mapping[str, str],
        *,
        subject: str = "",
        images: Sequence[ChatImage] = (),
        answer_schema: dict[str, Any] | None = None,
    ) -> ChatRequest:
        """Return the request with this prompt; `values` are its variables (see `render`)."""
        return ChatRequest(
            purpose=purpose,
            prompt=self.render(**values),
            prompt_digest=self.digest,
            subject=subject,
            images=tuple(images),
            answer_schema=answer_schema,
        )


@cache
def _compiled(text: str) -> jinja2.Template:
    return _TEMPLATES.from_string(text)


@cache
def load_prompt(prompt_id: str, folder: Path = _FOLDER, *, needs_header: bool = True) -> Prompt:
    """Load the prompt `folder/prompt_id.md`, or the file at a path ending in `.md`.

    A file without front matter is only text, unless it `needs_header`.

    Raises:
        ConfigurationError: there is no such prompt, its front matter is invalid, or its declared
            variables differ from those it uses.
    """
    path = Path(prompt_id) if prompt_id.endswith(".md") else folder / f"{prompt_id}.md"
    try:
        document = frontmatter.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        what = f"there is no prompt {prompt_id!r}"
        if not prompt_id.endswith(".md"):
            hint = nearest_hint(prompt_id, (file.stem for file in folder.glob("*.md")))
            what = f"{what}, and no .md file of that path; {hint}"
        raise ConfigurationError(what) from None
    except UnicodeDecodeError as error:
        raise ConfigurationError(f"{path.name} is not UTF-8: {error.reason}") from error
    except yaml.YAMLError as error:
        problem = " ".join(str(error).split())
        raise ConfigurationError(
            f"{path.name}: front matter is not valid YAML: {problem}"
        ) from error
    values = {**document.metadata, "text": document.content}
    is_text = not (needs_header or document.metadata)
    if is_text:
        if not document.content.strip():
            raise ConfigurationError(f"{path.name} is empty; expected what to ask a model")
        values = {"id": path.stem, "version": "1", "source": path.name, "variables": ()} | values
    prompt = validated(Prompt, values, f"{path.name}: front matter")
    if prompt.id != path.stem:
        raise ConfigurationError(f"{path.name}: id must be the file's name; got {prompt.id!r}")
    used = _used_variables(path, prompt)
    if is_text:
        return prompt.model_copy(update={"variables": tuple(sorted(used))})
    declared = set(prompt.variables)
    if undeclared := sorted(used - declared):
        raise ConfigurationError(f"{path.name} uses undeclared variables: {', '.join(undeclared)}")
    if unused := sorted(declared - used):
        raise ConfigurationError(f"{path.name} declares unused variables: {', '.join(unused)}")
    return prompt


def _used_variables(path: Path, prompt: Prompt) -> set[str]:
    try:
        template = _TEMPLATES.parse(prompt.text)
        parts = [template, *template.find_all(nodes.Node)]
        used = jinja2.meta.find_undeclared_variables(template)
    except jinja2.TemplateSyntaxError as error:
        raise ConfigurationError(f"{path.name}, line {error.lineno}: {error.message}") from error
    except RecursionError as error:
        raise ConfigurationError(f"{path.name}: expressions are nested too deeply") from error
    for part in parts:
        if not isinstance(part, _ALLOWED):
            raise ConfigurationError(
                f"{path.name}, line {part.lineno}: a prompt may contain text, {{{{ variables }}}} "
                f"and {{% if %}}; got {type(part).__name__.lower()}"
            )
    return used
