"""Mutations of requested JSON that occur in the answers of models.

Each mutation states what remains of the content, independently of how answers are parsed.
"""

import copy
import json
import random
from collections.abc import Callable
from enum import Enum
from typing import Any, NamedTuple

Content = dict[str, Any]


class Survives(Enum):
    """What a mutation left of the content of an answer."""

    ALL = "everything, and it must be parsed"
    HIDDEN = "everything, but as invalid JSON: parsed correctly or rejected"
    ONE_SPOILT = "everything except one entry, which must be rejected"
    NONE = "nothing certain: rejected"
    ALL_AS_WRITTEN = "everything; one entry must be returned exactly as the mutation wrote it"


class Mutated(NamedTuple):
    """A mutated answer.

    Attributes:
        spoilt: position of the entry that must be rejected.
        written: position and text of the entry that must be returned exactly as written.
    """

    text: str
    survives: Survives
    spoilt: int | None = None
    truncated: bool = False
    written: tuple[int, str] | None = None


class Subject(NamedTuple):
    """An answer to mutate: its content, the field of its list, and access to a text of an entry."""

    content: Content
    field: str
    set_text: Callable[[Content, int, Any, random.Random], None]
    get_text: Callable[[Content, int], str]


Mutation = Callable[[Subject, random.Random], Mutated]

FOREIGN = (
    "Zwei braune Hunde jagen eine Katze über den grünen Rasen hinter dem Haus.",
    "Deux chiens bruns poursuivent un chat sur la pelouse verte derrière la maison.",
    "Dos perros marrones persiguen a un gato por el césped verde detrás de la casa.",
    "Две коричневые собаки гонятся за кошкой по зелёной лужайке.",
    "两只棕色的狗在绿色的草坪上追赶一只猫。",
    "二匹の茶色い犬が緑の芝生の上で猫を追いかけている。",
    "كلبان بنيان يطاردان قطة على العشب الأخضر.",
    "Dwa brązowe psy gonią kota po zielonym trawniku za domem.",
)
_REASONS = (
    'The picture shows {"dogs": 2}, so {"strategies": []} would be wrong.',
    "Let me think. First, the dogs.\nSecond, the lawn.",
    "```json\n{}\n```",
)


def _dumped(content: Content, **options: Any) -> str:
    return json.dumps(content, ensure_ascii=False, **options)


def _entry(subject: Subject, rng: random.Random) -> int:
    return rng.randrange(len(subject.content[subject.field]))


def _with_text(subject: Subject, rng: random.Random, value: Any) -> tuple[Content, int]:
    content, position = copy.deepcopy(subject.content), _entry(subject, rng)
    subject.set_text(content, position, value, rng)
    return content, position


def _inside(text: str, rng: random.Random, inserted: str) -> str:
    """Insert something into a word of the text."""
    places = [at for at in range(1, len(text)) if text[at - 1 : at + 1].isalpha()]
    at = rng.choice(places)
    return text[:at] + inserted + text[at:]


# Text around the JSON


def wrapped_in_reasoning(subject: Subject, rng: random.Random) -> Mutated:
    name = rng.choice(("think", "thinking", "reasoning", "analysis", "THINK"))
    reason = rng.choice(_REASONS)
    opened = rng.choice((f"<{name}>", f"<{name} effort='high'>", ""))
    text = f"{opened}{reason}</{name}>{rng.choice((' ', '', chr(10)))}{_dumped(subject.content)}"
    return Mutated(text, Survives.ALL)


def unclosed_reasoning(subject: Subject, rng: random.Random) -> Mutated:
    return Mutated(f"<think>{rng.choice(_REASONS)} {_dumped(subject.content)}", Survives.NONE)


def wrapped_in_chatter(subject: Subject, rng: random.Random) -> Mutated:
    before = rng.choice(("Sure! Here is the JSON:\n", "Certainly.\n\n", "", "Answer: "))
    after = rng.choice(("\n\nLet me know if you need more!", "", "\nI hope this helps."))
    return Mutated(f"{before}{_dumped(subject.content)}{after}", Survives.ALL)


def wrapped_in_a_fence(subject: Subject, rng: random.Random) -> Mutated:
    language = rng.choice(("json", "JSON", "", "javascript"))
    text = f"Here it is:\n```{language}\n{_dumped(subject.content, indent=2)}\n```\nDone."
    return Mutated(text, Survives.ALL)


def unclosed_fence(subject: Subject, rng: random.Random) -> Mutated:
    cut = _dumped(subject.content)
    return Mutated(f"```json\n{cut[: rng.randrange(1, len(cut))]}", Survives.NONE)


def marked_by_a_chat_template(subject: Subject, rng: random.Random) -> Mutated:
    before, after = rng.choice((("<|im_start|>assistant\n", "<|im_end|>"), ("<s>", "</s>")))
    return Mutated(f"{before}{_dumped(subject.content)}{after}", Survives.ALL)


def byte_order_mark(subject: Subject, rng: random.Random) -> Mutated:
    return Mutated(f"\ufeff{_dumped(subject.content)}", Survives.ALL)


def other_spacing(subject: Subject, rng: random.Random) -> Mutated:
    indent = rng.choice((None, 1, 4, "\t"))
    space = rng.choice(("", "\n\n", " \t"))
    return Mutated(space + _dumped(subject.content, indent=indent) + space, Survives.ALL)


def escaped_unicode(subject: Subject, rng: random.Random) -> Mutated:
    return Mutated(json.dumps(subject.content, ensure_ascii=True), Survives.ALL)


# Invalid JSON


def cut_short(subject: Subject, rng: random.Random) -> Mutated:
    text = _dumped(subject.content)
    return Mutated(text[: rng.randrange(0, len(text))], Survives.NONE)


def truncated_at_token_limit(subject: Subject, rng: random.Random) -> Mutated:
    return Mutated(_dumped(subject.content), Survives.NONE, truncated=True)


def trailing_comma(subject: Subject, rng: random.Random) -> Mutated:
    text = _dumped(subject.content)
    end = rng.choice(("]", "}"))
    at = text.rindex(end)
    return Mutated(f"{text[:at]},{text[at:]}", Survives.HIDDEN)


def single_quotes(subject: Subject, rng: random.Random) -> Mutated:
    return Mutated(repr(subject.content), Survives.HIDDEN)


def with_comments(subject: Subject, rng: random.Random) -> Mutated:
    text = _dumped(subject.content, indent=1).replace("\n", " // a comment\n", 1)
    return Mutated(text, Survives.HIDDEN)


def encoded_twice(subject: Subject, rng: random.Random) -> Mutated:
    return Mutated(json.dumps(_dumped(subject.content)), Survives.HIDDEN)


def only_the_list(subject: Subject, rng: random.Random) -> Mutated:
    return Mutated(json.dumps(subject.content[subject.field]), Survives.HIDDEN)


def missing_delimiter(subject: Subject, rng: random.Random) -> Mutated:
    """Remove a bracket or quotation mark of the JSON."""
    text = _dumped(subject.content)
    structure = [at for at, sign in enumerate(text) if sign in '{}[]"']
    at = rng.choice(structure)
    return Mutated(text[:at] + text[at + 1 :], Survives.HIDDEN)


def two_answers(subject: Subject, rng: random.Random) -> Mutated:
    other, _ = _with_text(subject, rng, "Something quite different is to be seen here.")
    return Mutated(f"{_dumped(subject.content)}\nOr:\n{_dumped(other)}", Survives.NONE)


def refusal(subject: Subject, rng: random.Random) -> Mutated:
    texts = (
        *(
            "I'm sorry, but I can't help with that.",
            "Two dogs run over a lawn.",
            "1. Dogs\n2. Cats",
        ),
        *("", "   ", "null", "[]", "{}", "NaN", "12"),
    )
    return Mutated(rng.choice(texts), Survives.NONE)


def nested_deeply(subject: Subject, rng: random.Random) -> Mutated:
    deep = "[" * 50_000 + "]" * 50_000
    return Mutated(f'{{"{subject.field}": {deep}}}', Survives.NONE)


def huge_number(subject: Subject, rng: random.Random) -> Mutated:
    return Mutated(f'{{"{subject.field}": {"9" * 6000}}}', Survives.NONE)


# Valid JSON of another structure


def list_in_a_list(subject: Subject, rng: random.Random) -> Mutated:
    content = {**subject.content, subject.field: [subject.content[subject.field]]}
    return Mutated(_dumped(content), Survives.NONE)


def not_a_list(subject: Subject, rng: random.Random) -> Mutated:
    entries = subject.content[subject.field]
    other = {str(at): entry for at, entry in enumerate(entries)}
    value: Any = rng.choice((other, None, 3, "none", True, [], entries[0]))
    return Mutated(_dumped({**subject.content, subject.field: value}), Survives.NONE)


def field_twice(subject: Subject, rng: random.Random) -> Mutated:
    text = _dumped(subject.content)
    again = _dumped(subject.content[subject.field][:1])
    return Mutated(f'{text[:-1]}, "{subject.field}": {again}}}', Survives.NONE)


def renamed_field(subject: Subject, rng: random.Random) -> Mutated:
    content = copy.deepcopy(subject.content)
    content[rng.choice(("answer", "result", "Strategies", ""))] = content.pop(subject.field)
    return Mutated(_dumped(content), Survives.NONE)


def extra_field(subject: Subject, rng: random.Random) -> Mutated:
    return Mutated(_dumped({**subject.content, "note": "I hope it helps."}), Survives.HIDDEN)


# Unusable texts


def wrong_type(subject: Subject, rng: random.Random) -> Mutated:
    value: Any = rng.choice((3, 2.5, None, True, False, [], {}, ["A dog."], {"text": "A dog."}))
    content, position = _with_text(subject, rng, value)
    return Mutated(_dumped(content), Survives.ONE_SPOILT, position)


def nan_or_infinity(subject: Subject, rng: random.Random) -> Mutated:
    content, position = _with_text(subject, rng, rng.choice((float("nan"), float("inf"))))
    return Mutated(_dumped(content), Survives.ONE_SPOILT, position)


def text_without_words(subject: Subject, rng: random.Random) -> Mutated:
    value = rng.choice(("", "  ", "\n", "…", "...", "-", "?!", "123", '""', "\u200b", "{}"))
    content, position = _with_text(subject, rng, value)
    return Mutated(_dumped(content), Survives.ONE_SPOILT, position)


def huge_text(subject: Subject, rng: random.Random) -> Mutated:
    value = rng.choice(("very ", " ", "{", "\n", "a", "!. ")) * rng.choice((2_000, 200_000))
    content, position = _with_text(subject, rng, f"A dog {value} runs.")
    if not value.strip():  # white space is collapsed
        content, position = _with_text(subject, rng, value)
    return Mutated(_dumped(content), Survives.ONE_SPOILT, position)


def other_language(subject: Subject, rng: random.Random) -> Mutated:
    content, position = _with_text(subject, rng, rng.choice(FOREIGN))
    return Mutated(_dumped(content), Survives.ONE_SPOILT, position)


def control_character(subject: Subject, rng: random.Random) -> Mutated:
    sign = rng.choice("\x00\x01\x08\x0b\x0c\x1b\x1c\x1f\x7f\x85\x9f\u202e\u2066\ue000\ufffd\u2028")
    content = copy.deepcopy(subject.content)
    position = _entry(subject, rng)
    text = _inside(subject.get_text(content, position), rng, sign)
    subject.set_text(content, position, text, rng)
    raw = json.dumps(content, ensure_ascii=rng.random() < 0.5)
    return Mutated(raw, Survives.ONE_SPOILT, position)


def lone_surrogate(subject: Subject, rng: random.Random) -> Mutated:
    content = copy.deepcopy(subject.content)
    position = _entry(subject, rng)
    text = _inside(subject.get_text(content, position), rng, "SURROGATE")
    subject.set_text(content, position, text, rng)
    half = rng.choice((r"\ud800", r"\udfff", r"\ud83d", r"\ude00\ud83d", "\ud800"))
    return Mutated(_dumped(content).replace("SURROGATE", half), Survives.ONE_SPOILT, position)


def markup(subject: Subject, rng: random.Random) -> Mutated:
    content = copy.deepcopy(subject.content)
    position = _entry(subject, rng)
    text = subject.get_text(content, position)
    form = rng.choice(
        ("<b>{}</b>", "<p>{}", "{} <br/>", "[{}](http://x)", "{} &amp; more", "# {}", "```{}```")
    )
    subject.set_text(content, position, form.replace("{}", text), rng)
    return Mutated(_dumped(content), Survives.ONE_SPOILT, position)


def json_in_a_text(subject: Subject, rng: random.Random) -> Mutated:
    inner = json.dumps({"text": "Two dogs run."})
    content, position = _with_text(subject, rng, rng.choice((inner, f"Here: {inner}", "[1, 2]")))
    return Mutated(_dumped(content), Survives.ONE_SPOILT, position)


def reasoning_in_a_text(subject: Subject, rng: random.Random) -> Mutated:
    content = copy.deepcopy(subject.content)
    position = _entry(subject, rng)
    text = f"<think>or not?</think> {subject.get_text(content, position)}"
    subject.set_text(content, position, text, rng)
    return Mutated(_dumped(content), Survives.ONE_SPOILT, position)


def emphasis(subject: Subject, rng: random.Random) -> Mutated:
    content = copy.deepcopy(subject.content)
    position = _entry(subject, rng)
    form = rng.choice(("**{}**", "*{}*", "__{}__"))
    text = form.replace("{}", subject.get_text(content, position))
    subject.set_text(content, position, text, rng)
    return Mutated(_dumped(content), Survives.ONE_SPOILT, position)


def refusal_in_a_text(subject: Subject, rng: random.Random) -> Mutated:
    content = copy.deepcopy(subject.content)
    position = _entry(subject, rng)
    text = subject.get_text(content, position)
    form = rng.choice(
        (
            "I'm sorry, but I can't identify people in images.",
            "I’m sorry, I cannot help with that.",
            "As an AI, I do not describe real people.",
            "Two dogs, but I cannot see what they do.",
            '"I am unable to assist with this picture."',
            "Sure! Here is the caption: {}",
            "Here's a short description of the image: {}",
        )
    )
    subject.set_text(content, position, form.replace("{}", text), rng)
    return Mutated(_dumped(content), Survives.ONE_SPOILT, position)


# Usable texts, in which only white space may change


def invisible_characters(subject: Subject, rng: random.Random) -> Mutated:
    content = copy.deepcopy(subject.content)
    position = _entry(subject, rng)
    sign = rng.choice("\u200b\ufeff\u00ad\u2060")
    text = _inside(subject.get_text(content, position), rng, sign)
    subject.set_text(content, position, text, rng)
    return Mutated(_dumped(content), Survives.ONE_SPOILT, position)


def other_white_space(subject: Subject, rng: random.Random) -> Mutated:
    content = copy.deepcopy(subject.content)
    position = _entry(subject, rng)
    text = subject.get_text(content, position).replace(" ", rng.choice(("  ", "\n", "\t", " \n ")))
    subject.set_text(content, position, f" {text}\n", rng)
    raw = _dumped(content)
    return Mutated(raw if rng.random() < 0.5 else raw.replace("\\n", "\n"), Survives.ALL)


def markup_like_text(subject: Subject, rng: random.Random) -> Mutated:
    """Add content of the picture that looks like emphasis, chatter or reasoning."""
    content = copy.deepcopy(subject.content)
    position = _entry(subject, rng)
    shown = rng.choice(
        (
            "“2*3*4” and “2**3**2”",
            "«x = a*b» and «y = c*d»",
            '"__init__" and "__repr__"',
            'the words "Danger. If you need help, call 112."',
            "a fridge. Note that the milk is gone",
            '"<think>" and "</think>"',
            "“I'm sorry, I can't help with that”",
            '"```" and "</s>"',
            '"Version: 2.0" on a box',
        )
    )
    text = f"{subject.get_text(content, position).rstrip('.')}, and a board shows {shown}."
    subject.set_text(content, position, text, rng)
    before = rng.choice(("", "<think>No emphasis.</think>", "It is not {bold}.</think>\n"))
    raw = before + _dumped(content)
    return Mutated(raw, Survives.ALL_AS_WRITTEN, written=(position, text))


def quoted_as_a_whole(subject: Subject, rng: random.Random) -> Mutated:
    content = copy.deepcopy(subject.content)
    position = _entry(subject, rng)
    text = rng.choice(('"{}"', "“{}”")).replace("{}", subject.get_text(content, position))
    subject.set_text(content, position, text, rng)
    return Mutated(_dumped(content), Survives.ONE_SPOILT, position)


MUTATIONS: tuple[Mutation, ...] = (
    wrapped_in_reasoning,
    unclosed_reasoning,
    wrapped_in_chatter,
    wrapped_in_a_fence,
    unclosed_fence,
    marked_by_a_chat_template,
    byte_order_mark,
    other_spacing,
    escaped_unicode,
    cut_short,
    truncated_at_token_limit,
    trailing_comma,
    single_quotes,
    with_comments,
    encoded_twice,
    only_the_list,
    missing_delimiter,
    two_answers,
    refusal,
    nested_deeply,
    huge_number,
    list_in_a_list,
    not_a_list,
    field_twice,
    renamed_field,
    extra_field,
    wrong_type,
    nan_or_infinity,
    text_without_words,
    huge_text,
    other_language,
    control_character,
    lone_surrogate,
    markup,
    json_in_a_text,
    reasoning_in_a_text,
    invisible_characters,
    other_white_space,
    emphasis,
    refusal_in_a_text,
    markup_like_text,
    quoted_as_a_whole,
)


def mutated(
    subjects: list[Subject],
    extra: tuple[Mutation, ...],
    count: int,
    excluded: tuple[Mutation, ...] = (),
) -> list[tuple[str, int, Mutated]]:
    """Return `count` seeded mutations: name, index of the subject, and mutated answer."""
    kinds = [one for one in (*MUTATIONS, *extra) if one not in excluded]
    result = []
    for seed in range(count):
        mutation, at = kinds[seed % len(kinds)], (seed // len(kinds)) % len(subjects)
        rng = random.Random(seed)
        result.append((mutation.__name__, at, mutation(subjects[at], rng)))
    return result
