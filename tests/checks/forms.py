"""Texts that are no captions, made of captions, and the captions that they are made of."""

import codecs
import json
import tomllib
from base64 import b64encode
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

_FILE = Path(__file__).parents[1] / "data" / "described.toml"


class Described(NamedTuple):
    """A description, in a language, with faithful rewrites."""

    domain: str
    source: str
    good: list[str]
    language: str = "en"


def described() -> list[Described]:
    return [Described(**one) for one in tomllib.loads(_FILE.read_text("utf-8"))["described"]]


Spoil = Callable[[str, str], str]
"""Returns a bad text, made of a source and a good rewrite of it."""

LEET = str.maketrans("aeiosAEIOS", "4310543105")
STYLED = {ord("a") + n: 0x1D41A + n for n in range(26)}
WIDE = {0x21 + n: 0xFF01 + n for n in range(94)}


def _in_pieces(text: str) -> list[str]:
    return [piece.strip() for piece in text.replace("。", ".").split(".") if piece.strip()]


FORMS: dict[str, Spoil] = {
    # chat templates and role marks
    "assistant": lambda _, t: f"Assistant: {t}",
    "human": lambda _, t: f"{t} Human: next",
    "human, lines": lambda _, t: f"{t}\n\nHuman: Describe the next one.",
    "user": lambda s, t: f"User: {s}\nAssistant: {t}",
    "im_end": lambda _, t: f"{t}<|im_end|>",
    "im_start": lambda _, t: f"<|im_start|>assistant\n{t}",
    "inst": lambda _, t: f"[INST] {t} [/INST]",
    "eos": lambda _, t: f"{t}</s>",
    "header": lambda _, t: f"<|start_header_id|>assistant<|end_header_id|> {t}",
    "hashes": lambda _, t: f"### Response: {t}",
    "gemma": lambda _, t: f"{t}<end_of_turn>",
    "think": lambda _, t: f"</think> {t}",
    # markup
    "tag": lambda _, t: f"<description>{t}</description>",
    "tag, spaced": lambda _, t: f"<description> {t} </description>",
    "rewrite tag": lambda _, t: f"<rewrite>{t}</rewrite>",
    "html": lambda _, t: f"<p>{t}</p>",
    "break": lambda _, t: t.replace(" ", "<br/>", 1) + "<br>",
    "bold": lambda _, t: f"**{t}**",
    "bold word": lambda _, t: t[:3] + "**" + t[3:8] + "**" + t[8:],
    "italics": lambda _, t: f"_{t}_",
    "emphasis": lambda _, t: f"*{t}*",
    "code": lambda _, t: f"`{t}`",
    "fence": lambda _, t: f"```\n{t}\n```",
    "heading": lambda _, t: f"# Rewritten Description\n{t}",
    "heading, one line": lambda _, t: f"## Rewrite {t}",
    "latex": lambda _, t: f"\\textbf{{{t}}}",
    "maths": lambda _, t: f"${t}$",
    "entity": lambda _, t: f"{t[:-1]} &amp; more{t[-1]}",
    "numeric entity": lambda _, t: f"{t[:8]}&#39;{t[8:]}",
    "escape": lambda _, t: f"{t[:8]}\\u2014{t[8:]}",
    "newline escape": lambda _, t: f"{t}\\n",
    "percent": lambda _, t: t.replace(" ", "%20").replace("，", "%20"),
    "quoted printable": lambda _, t: f"{t[:9]}=C3=A9{t[9:]}",
    "table": lambda _, t: "| colour | thing |\n|---|---|\n| red | " + t + " |",
    "csv": lambda _, t: "id,colour,thing\n1,red,coat",
    "link": lambda _, t: f"{t} [more](page)",
    "citation": lambda _, t: f"{t} [1]",
    "footnote": lambda _, t: f"{t[:-1]}¹{t[-1]}",
    "timestamp": lambda _, t: f"[00:12] {t}",
    "subtitle": lambda _, t: f"00:00:01,000 --> 00:00:04,000 {t}",
    "date": lambda _, t: f"2026-01-05T10:22:33Z {t}",
    "rule": lambda _, t: f"{t} ---",
    "arrow": lambda s, t: f"{s} -> {t}",
    "braces": lambda _, t: f"{{{t}}}",
    "json": lambda _, t: json.dumps({"rewrite": t}),
    "json tail": lambda _, t: f'{t}"}}',
    "list": lambda _, t: json.dumps([t]),
    "keyword": lambda _, t: f"rewrite='{t}'",
    "call": lambda _, t: f'rewrite("{t}")',
    "print": lambda _, t: f"print('{t}')",
    "comment": lambda _, t: f"// {t}",
    "hash comment": lambda _, t: f"# {t}",
    "block comment": lambda _, t: f"/* {t} */",
    "yaml": lambda _, t: f"rewrite: {t}",
    "yaml block": lambda _, t: f"rewrite: |\n  {t}",
    "yaml document": lambda _, t: f"---\n{t}",
    "tool call": lambda _, t: f'<tool_call>{{"name": "rewrite", "arguments": "{t}"}}</tool_call>',
    "variable": lambda _, t: f"rewrite_text {t}",
    "placeholder": lambda _, t: "[NAME] " + t,
    "template": lambda _, t: "{{ description }}",
    "your text": lambda _, t: "your text, as a string",
    "todo": lambda _, t: "TODO",
    # lists
    "bullets": lambda _, t: "\n".join(f"- {piece}" for piece in _in_pieces(t)),
    "stars": lambda _, t: "\n".join(f"* {piece}" for piece in _in_pieces(t)),
    "dots": lambda _, t: "• " + " • ".join(_in_pieces(t)),
    "numbers": lambda _, t: " ".join(f"{n}. {p}." for n, p in enumerate(_in_pieces(t), 1)),
    "letters": lambda _, t: " ".join(f"({n:x}) {p}." for n, p in enumerate(_in_pieces(t), 10)),
    "options": lambda s, t: f"Option 1: {t} Option 2: {s}",
    "options, lines": lambda s, t: f"Option 1\n{t}\nOption 2\n{s}",
    "original": lambda s, t: f"Original: {s} Rewritten: {t}",
    # addresses and signs
    "hashtags": lambda _, t: f"{t} #fashion #style",
    "handle": lambda _, t: f"{t} Photo by @someone.",
    "url": lambda _, t: f"{t} See https://example.org/more.",
    "www": lambda _, t: f"{t} See www.example.com for more.",
    "domain": lambda _, t: f"{t} Visit example.com.",
    "mail": lambda _, t: f"{t} Write to me@example.com.",
    "path": lambda _, t: f"{t} /data/images/001.jpg",
    "file": lambda _, t: f"image_0012.jpg {t}",
    "emoji": lambda _, t: f"{t} 😊",
    "check mark": lambda _, t: f"✅ {t}",
    "star": lambda _, t: f"{t} ★★★★☆",
    "arrow sign": lambda _, t: f"→ {t}",
    # broken characters and words
    "mojibake": lambda _, t: f"{t[:9]} â€” {t[9:]}",
    "mojibake, umlaut": lambda _, t: f"{t[:9]}Ã¼{t[9:]}",
    "replacement": lambda _, t: f"{t[:9]}\ufffd{t[9:]}",
    "byte order mark": lambda _, t: f"\ufeff{t}",
    "zero width": lambda _, t: f"{t[:9]}\u200b{t[9:]}",
    "override": lambda _, t: f"{t[:9]}\u202e{t[9:]}",
    "control": lambda _, t: f"{t[:9]}\x07{t[9:]}",
    "stray bracket": lambda _, t: f"{t[:-1]}){t[-1]}",
    "stray square bracket": lambda _, t: f"{t}]",
    "stray quote": lambda _, t: f'{t}"',
    "in quotes": lambda _, t: f'"{t}"',
    "ellipsis": lambda _, t: f"{t[:-1]}...",
    "one ellipsis": lambda _, t: f"{t[:-1]}…",
    "no end": lambda _, t: t[:-1],
    "comma at the end": lambda _, t: f"{t[:-1]},",
    "cut": lambda _, t: t[: int(len(t) * 0.9)].rstrip(".。,;，"),
    "twice": lambda _, t: f"{t} {t}",
    "twice, lines": lambda _, t: f"{t}\n\n{t}",
    "question": lambda _, t: f"{t} What else can I do for you?",
    "only questions": lambda _, t: "Can you see it?",
    "chinese question": lambda _, t: "你看到了吗？",
    "base64": lambda _, t: b64encode(t.encode()).decode(),
    "cyrillic": lambda _, t: f"{t} Красная машина стоит на улице.",
    "greek": lambda _, t: t[:4] + "αβγδ " + t[4:],
    "empty": lambda _, t: "  \n ",
    "dots only": lambda _, t: "...",
    "number": lambda _, t: "12345",
}
"""Bad in every language."""

LATIN_FORMS: dict[str, Spoil] = {
    "capitals": lambda _, t: t.upper(),
    "capital sentence": lambda _, t: f"{t} {_in_pieces(t)[0].upper()}.",
    "leet": lambda _, t: t.translate(LEET),
    "styled": lambda _, t: t.translate(STYLED),
    "full width": lambda _, t: t.translate(WIDE),
    "without spaces": lambda _, t: t.replace(" ", ""),
    "letter by letter": lambda _, t: " ".join(t.replace(" ", "")),
    "backwards": lambda _, t: t[::-1],
    "small letters": lambda _, t: t[0].lower() + t[1:],
    "underscores": lambda _, t: t.replace(" ", "_"),
    "chinese": lambda _, t: "一位穿着黑色夹克和黑色长裤的男子站着，他有短黑发。",
    "chinese tail": lambda _, t: f"{t} 这是一段描述。",
    "translation": lambda _, t: f"{t} (中文：一位男子站着。)",
    "homoglyphs": lambda _, t: t.replace("a", "а").replace("e", "е"),
    "alternating": lambda _, t: "".join(c.upper() if n % 2 else c for n, c in enumerate(t)),
    "long letters": lambda _, t: t.replace("e", "eeee"),
    "note": lambda _, t: t[0].lower() + t[1:-1],
    "space before the stop": lambda _, t: f"{t[:-1]} {t[-1]}",
    "broken word": lambda _, t: f"{t[:-1]} brief-\ncase{t[-1]}",
}

ENGLISH_FORMS: dict[str, Spoil] = {
    "rot13": lambda _, t: codecs.encode(t, "rot13"),
    "german tail": lambda _, t: f"{t} Das ist eine Beschreibung des Bildes in anderen Worten.",
    "german": lambda _, t: "Ein Mann mit kurzem Haar steht mit dem Rücken zur Kamera.",
    "french tail": lambda _, t: f"{t} Une description complète de la scène est donnée ici.",
    "keyboard": lambda _, t: "Asdf qwer zxcv black trousers uiop.",
    "lorem": lambda _, t: "Lorem ipsum dolor sit amet, consectetur adipiscing elit.",
    "title": lambda _, t: t.title(),
    "word, twice more": lambda _, t: t.replace(" is ", " is is is ").replace(" a ", " a a a "),
    "first person": lambda _, t: f"{t} I kept all the facts.",
    "to the reader": lambda _, t: f"{t} Let me know if you want another version.",
    "hope": lambda _, t: f"I hope you like it. {t}",
    "as you wished": lambda _, t: f"As you wished, {t[0].lower()}{t[1:]}",
    "apology": lambda _, t: f"I apologize for the mistake. {t}",
    "refusal": lambda _, t: "I cannot describe people.",
    "we": lambda _, t: f"{t} We thank everyone.",
    "sure": lambda _, t: f"Sure! Here is the rewritten text: {t}",
    "note": lambda _, t: f"{t} Note: all facts are kept.",
    "here is": lambda _, t: f"Here is a rewritten version: {t}",
    "facts": lambda _, t: f"The rewritten description keeps all facts: {t}",
    "caption": lambda _, t: f"Caption: {t}",
    "spelled out": lambda _, t: f"{t[:-1]} with a d o g{t[-1]}",
}

REMARKS: dict[str, Spoil] = {
    "absolutely": lambda _, t: f"Absolutely, {_inside(t)}",
    "okay": lambda _, t: f"Okay, so in this picture, {_inside(t)}",
    "sure thing": lambda _, t: f"Sure thing, {_inside(t)}",
    "no problem": lambda _, t: f"No problem, {_inside(t)}",
    "great question": lambda _, t: f"Great question, {_inside(t)}",
    "label with a dash": lambda _, t: f"Caption - {t}",
    "the text": lambda _, t: f"The text describes that {_inside(t)}",
    "the description": lambda _, t: f"The description says that {_inside(t)}",
    "not mentioned": lambda _, t: f"{t} Note that the background is not mentioned.",
    "tags": lambda _, t: f"{t[:-1]}, highly detailed, photorealistic, 8k.",
    "alternatively": lambda _, t: f"{t} Alternatively, {_inside(t)}",
    "again": lambda _, t: f"{t} {_rotated(max(_in_pieces(t), key=len))}.",
    "list of words": lambda s, _: f"{', '.join(w for w in _words(s) if len(w) > 3)}.",
    "words of German": lambda _, t: f"{t[:-1]} und daneben{t[-1]}",
    "hardly shared": lambda _, t: f"{t} A black mood and gloomy music accompany slow dances.",
}
"""Bad in English, and told by comparison with the source or by what they say of a text."""


def _rotated(text: str) -> str:
    """Return the words of a sentence in another order."""
    words = _words(text)
    half = len(words) // 2
    return " ".join([words[half].title(), *words[half + 1 :], "and", *words[:half]])


def _words(text: str) -> list[str]:
    return text.replace(",", "").replace(";", "").replace(".", "").split()


def _inside(text: str) -> str:
    """Return a text as it goes on after other words of its sentence."""
    return text[0].lower() + text[1:]


def bad_forms(language: str) -> dict[str, Spoil]:
    """Return the forms that are bad in a language."""
    found = dict(FORMS)
    if language != "zh":
        found |= LATIN_FORMS
    if language == "en":
        found |= ENGLISH_FORMS
    return found
