"""What comes back from an OpenAI-compatible server: a completion, a refusal, or neither."""

import json
import re
from hashlib import sha256
from typing import Any, TypeVar

import httpx

from loupe.schemas.chat import (
    ANSWER_IN_REASONING,
    CONTENT_FILTERED,
    QUOTA_EXHAUSTED,
    REFUSED,
    ChatAnswer,
    ChatFailure,
    ChatOutcome,
)
from loupe.schemas.profile import OpenAIChat

_RAW_CHARACTERS = 10_000  # of a refusal
_SAID_CHARACTERS = 500  # of it, in messages
_MOST_TOKENS = 100_000_000  # larger counts are implausible
_UNREADABLE_ANSWER = "unreadable_answer"
_REFUSING = (400, 413, 415, 422, 451)
"""Statuses of a request that a server refuses for its content; others concern the settings."""
_REASONING_FIELDS = ("reasoning_content", "reasoning")
_FILTERS = ("content_filter", "content_policy_violation", "responsibleaipolicyviolation")
_OUT_OF_CREDIT = re.compile(
    r"insufficient[_ ](?:user[_ ])?(?:quota|credit|balance|funds)|billing_|billing (?:hard )?limit"
    r"|credit balance|out of credit|(?:more|not enough) credits",
    re.IGNORECASE,
)
_UNSUPPORTED = re.compile(
    r"unsupported|not support|unknown|unrecogni[sz]ed|extra (?:inputs|fields)|not permitted"
    r"|unexpected|does not accept|deprecated",
    re.IGNORECASE,
)
_REQUEST_ID = re.compile(r"[0-9a-f]{32}")
T = TypeVar("T")


class BrokenAnswerError(Exception):
    """A status of success came without a whole completion, which is a fault of the transport."""

    def __init__(self, what: str, raw: str = "", reason: str = _UNREADABLE_ANSWER) -> None:
        super().__init__(what)
        self.raw = raw
        self.reason = reason


class ServerError(Exception):
    """A server answered with an error: as its status, or in a body with a status of success."""

    def __init__(self, status: int, response: httpx.Response) -> None:
        super().__init__(status)
        self.status = status
        self.response = response


class SentRequests:
    """The requests sent to a server, by which it is seen that an answer belongs to another one.

    Only what a server repeats can be compared. Some repeat the header `X-Request-Id`, or take it as
    the id of the completion (vLLM). Most name the model; a server that has named exactly the wanted
    one must go on to, while others name a version of it.
    """

    def __init__(self, model: str) -> None:
        self._model = model
        self._bodies: dict[str, bytes] = {}  # digests, by number
        self._names_model = False

    def checked(self, response: httpx.Response, number: str, body: bytes) -> dict[str, Any]:
        """Return the JSON object in the response to request `number`.

        Raises:
            BrokenAnswerError: there is none, or it answers another request.
            ServerError: it is an error.
        """
        if not response.is_success:
            raise ServerError(response.status_code, response)
        self._bodies[number] = own = sha256(body).digest()
        found = _object_in(response)
        if (status := _status_in(found)) is not None:
            raise ServerError(status, response)
        said = f"{response.headers.get('x-request-id')} {found.get('id')}"
        if any(self._bodies.get(one, own) != own for one in _REQUEST_ID.findall(said)):
            raise BrokenAnswerError("with the answer to another request", response.text)
        named = found.get("model")
        if self._names_model and isinstance(named, str) and named != self._model:
            what = f"for the model {named[:_SAID_CHARACTERS]!r}; expected {self._model!r}"
            raise BrokenAnswerError(what, response.text)
        self._names_model = self._names_model or named == self._model
        return found


def _object_in(response: httpx.Response) -> dict[str, Any]:
    try:
        text = response.content.decode("utf-8-sig").strip()
    except UnicodeDecodeError as error:
        raise BrokenAnswerError(f"the body is damaged: {error}", response.text) from error
    if text.startswith("<"):
        raise BrokenAnswerError(
            "with a web page instead of JSON, such as a proxy's sign-in page: check base_url in "
            "the profile, which usually ends in /v1, and the proxy",
            text,
            "web_page",
        )
    if not text:
        raise BrokenAnswerError("with an empty body")
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise BrokenAnswerError(f"the body is not complete JSON: {error}", text) from error
    if not isinstance(found, dict):
        raise BrokenAnswerError("the body is not a JSON object", text)
    return found


def _status_in(body: dict[str, Any]) -> int | None:
    """Return the status of the error in a body with a status of success; None if there is none.

    It is that of a server that failed, unless the error names another one that is asked again or
    concerns all requests.
    """
    error = body.get("error")
    for choice in body.get("choices") or () if isinstance(body.get("choices"), list) else ():
        error = error or _field(choice, "error", dict)
    if not error:
        return None
    code = error.get("code") if isinstance(error, dict) else None
    return code if code in (401, 402, 403, 404, 408, 409, 429, 503) else 502


def read_completion(
    body: dict[str, Any],
    raw: str,
    seconds: float,
    address: str,
    *,
    reasoning_is_answer: bool = False,
) -> ChatOutcome:
    """Return the answer in a completion.

    An answer without content that ended at the token limit is an empty `ChatAnswer`: a model may
    spend all its tokens on reasoning. A refusal is what the model said. What a filter held back,
    and an answer among the reasoning, are failures that were paid for.

    Raises:
        BrokenAnswerError: it is no whole completion.
    """
    choices = _field(body, "choices", list)
    if not choices:
        raise BrokenAnswerError("the body holds no list of choices", raw)
    message = _field(choices[0], "message", dict)
    if message is None:
        raise BrokenAnswerError("the first choice holds no message", raw)
    text = _text_of(message.get("content"))
    if text is None:
        raise BrokenAnswerError("the content of the message is neither text nor parts", raw)
    finish = str(choices[0].get("finish_reason")).casefold()
    if finish == "error":
        raise BrokenAnswerError("the completion ended with an error (finish_reason)", raw)
    tokens_in, tokens_out = _tokens(body)
    usage = {"raw": raw, "tokens_in": tokens_in, "tokens_out": tokens_out}
    if finish in _FILTERS:
        detail = f"{address} held the answer back: its content filter (finish_reason {finish})"
        return ChatFailure(reason=CONTENT_FILTERED, detail=detail, retriable=False, **usage)
    text = text or _called_with(message) or _field(message, "refusal", str) or ""
    field = next((one for one in _REASONING_FIELDS if _field(message, one, str)), None)
    if field and not text.strip() and finish != "length":
        if not reasoning_is_answer:
            detail = _answer_in(field, address)
            return ChatFailure(reason=ANSWER_IN_REASONING, detail=detail, retriable=False, **usage)
        text = message[field]
    return ChatAnswer(text=text, seconds=seconds, truncated=finish == "length", **usage)


def other_model_in(raw: str, name: str) -> str | None:
    """Return the model that a body names as its author if that is no version of `name`.

    A version of it contains the name, or the last part of it: `openai/gpt-4o` is `gpt-4o-2024`.
    """
    try:
        named = _field(json.loads(raw), "model", str)
    except (ValueError, RecursionError):
        return None
    if not named:
        return None
    own, other = (one.casefold().rsplit("/", 1)[-1] for one in (name, named))
    return None if own in other or other in own else named[:_SAID_CHARACTERS]


def _called_with(message: dict[str, Any]) -> str | None:
    """Return the arguments of the only tool call of a message: some servers answer with one."""
    calls = _field(message, "tool_calls", list) or []
    if len(calls) != 1:
        return None
    return _field(_field(calls[0], "function", dict), "arguments", str)


def read_reasoning(raw: str) -> ChatOutcome:
    """Return the answer in a stored response, also if it is among the reasoning."""
    return read_completion(json.loads(raw), raw, 0.0, "", reasoning_is_answer=True)


def _answer_in(field: str, address: str) -> str:
    return (
        f"{address} answered in {field}, and content is null: the server takes the answer for "
        f"reasoning. Start it without its reasoning parser (vLLM: --reasoning-parser) or with "
        f"another one, or state enable_thinking (body = {{ chat_template_kwargs = {{ "
        f"enable_thinking = false }} }}) in the profile; then the stored answers are replaced "
        f"after: loupe quarantine DATASET --reason {ANSWER_IN_REASONING} --retry. If {field} holds "
        f"the answers, read_reasoning = true in the profile reads them, also those already paid for"
    )


def refusal_of(error: ServerError, address: str, spec: OpenAIChat) -> ChatFailure:
    """Return the failure for an error of the server, in its words."""
    status, response = error.status, error.response
    said = server_sentence(response.text)
    codes = _codes_in(response.text)
    retriable, hint = True, ""
    is_page = response.text.lstrip().startswith("<")
    if _is_out_of_credit(status, codes, said):
        reason = QUOTA_EXHAUSTED
    elif any(one in codes.casefold() for one in _FILTERS):
        reason, retriable = CONTENT_FILTERED, False
    elif status == httpx.codes.TOO_MANY_REQUESTS:
        reason = "rate_limited"
    elif status == httpx.codes.REQUEST_TIMEOUT:
        reason = "timeout"
    elif status in (httpx.codes.CONFLICT, httpx.codes.TOO_EARLY) or status >= 500:
        reason = "server_error"
    elif status not in _REFUSING or is_page:
        # A wrong key, right, address or model name: a fault of the settings, not of this input.
        reason, hint = "misconfigured", _hint_on_key(status, spec.api_key_variable)
    elif key := _refused_parameter(spec, f"{codes} {said}"):
        reason, hint = "misconfigured", f"; set {key} in the profile"
    else:
        reason, retriable = REFUSED, False
    sent = response.status_code
    what = f"status {sent}" if sent == status else f"status {sent}, but with an error"
    return ChatFailure(
        reason=reason,
        detail=f"{address} answered with {what}{f': {said}' if said else ''}{hint}",
        retriable=retriable,
        raw=response.text[:_RAW_CHARACTERS],
    )


def _hint_on_key(status: int, variable: str | None) -> str:
    if status != httpx.codes.UNAUTHORIZED:
        return ""
    if variable is None:
        return (
            "; it wants a key: name the variable which holds it (api_key_variable in the profile)"
        )
    return f"; correct the key in {variable} (api_key_variable in the profile)"


def _is_out_of_credit(status: int, codes: str, said: str) -> bool:
    """Tell whether an account cannot pay, which waiting does not change."""
    unpaid = httpx.codes.PAYMENT_REQUIRED
    if status == unpaid or str(int(unpaid)) in codes.split() or _OUT_OF_CREDIT.search(codes):
        return True
    return status in (400, 403, 429) and _OUT_OF_CREDIT.search(said) is not None


def _refused_parameter(spec: OpenAIChat, said: str) -> str | None:
    """Return the key of the profile that changes the parameter which a server refuses, if any.

    A limit on tokens that is too high for one prompt is a fault of that prompt.
    """
    named = set(re.findall(r"\w+", said))
    limit = spec.limit_parameter
    if limit in named and _UNSUPPORTED.search(said):
        other = "max_tokens" if limit == "max_completion_tokens" else "max_completion_tokens"
        return f'limit_parameter = "{other}"'
    for name in ("temperature", "top_p", "seed"):
        if name in named and name in spec.sent_sampling:
            return f'leave_out = ["{name}"]'
    if named & {"response_format", "json_schema", "guided_json", "structured_outputs"}:
        less = "json_object" if spec.structured == "json_schema" else "none"
        return f'structured = "{less}"'
    if own := sorted(named & spec.body.keys()):
        return f"body (without {own[0]})"
    return None


def _codes_in(body: str) -> str:
    """Return the words with which a body classifies its error, and the parameter it names."""
    try:
        found = json.loads(body)
    except (ValueError, RecursionError):
        return ""
    error = _field(found, "error", dict) or found
    inner = _field(error, "innererror", dict)
    names = ("code", "type", "param")
    words = [one.get(name) for one in (error, inner) if isinstance(one, dict) for name in names]
    return " ".join(str(one) for one in words if one is not None)


def server_sentence(body: str) -> str:
    """What a server says in the body of an error, on one line; "" where it says nothing.

    It is looked for where servers put it: in `error.message` (OpenAI, vLLM), `error`, `message` and
    `detail` (FastAPI), also in a choice. Of a page in HTML nothing is shown.
    """
    try:
        found = json.loads(body)
    except (ValueError, RecursionError):
        found = "" if body.lstrip().startswith("<") else body
    if isinstance(choices := _field(found, "choices", list), list) and choices:
        found = _field(choices[0], "error", dict) or found
    for name in ("error", "message", "detail"):
        if isinstance(found, dict):
            found = found.get(name) or found
    sentence = found if isinstance(found, str) else json.dumps(found) if found else ""
    return " ".join(sentence.split())[:_SAID_CHARACTERS]


def _text_of(content: Any) -> str | None:
    """The text of a message's content: a string, or a list of parts; None where it is neither.

    Parts without text of the answer, such as a model's thoughts, are left out.
    """
    if content is None or isinstance(content, str):
        return content or ""
    if isinstance(content, dict):
        content = [content]
    if not isinstance(content, list):
        return None
    texts = [part if isinstance(part, str) else _text_of_part(part) for part in content]
    readable = [text for text in texts if text is not None]
    return "".join(readable) if readable or not content else None


def _text_of_part(part: Any) -> str | None:
    if _field(part, "type", str) in ("thinking", "reasoning"):
        return ""
    text = _field(part, "text", str)
    return _field(part, "refusal", str) if text is None else text


def _tokens(body: Any) -> tuple[int | None, int | None]:
    """Tokens in and out as the body states them; None for what is no credible count."""
    usage = _field(body, "usage", dict) or {}
    return _count(usage.get("prompt_tokens")), _count(usage.get("completion_tokens"))


def _count(value: Any) -> int | None:
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    is_whole = isinstance(value, int) and not isinstance(value, bool)
    return value if is_whole and 0 <= value <= _MOST_TOKENS else None


def _field(value: Any, name: str, kind: type[T]) -> T | None:
    """A field of a JSON object; None where it is missing or of another kind."""
    found = value.get(name) if isinstance(value, dict) else None
    return found if isinstance(found, kind) else None
