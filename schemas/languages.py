"""Codes of languages (ISO 639-1), as profiles and build files name them."""

from typing import Annotated

from pydantic import AfterValidator

_LISTED = """
    aa ab ae af ak am an ar as av ay az ba be bg bh bi bm bn bo br bs ca ce ch co cr cs cu cv cy da
    de dv dz ee el en eo es et eu fa ff fi fj fo fr fy ga gd gl gn gu gv ha he hi ho hr ht hu hy hz
    ia id ie ig ii ik io is it iu ja jv ka kg ki kj kk kl km kn ko kr ks ku kv kw ky la lb lg li ln
    lo lt lu lv mg mh mi mk ml mn mr ms mt my na nb nd ne ng nl nn no nr nv ny oc oj om or os pa pi
    pl ps pt qu rm rn ro ru rw sa sc sd se sg si sk sl sm sn so sq sr ss st su sv sw ta te tg th ti
    tk tl tn to tr ts tt tw ty ug uk ur uz ve vi vo wa wo xh yi yo za zh zu
"""
_CODES = frozenset(_LISTED.split())
_NAMES = {
    "arabic": "ar",
    "chinese": "zh",
    "cn": "zh",
    "danish": "da",
    "deutsch": "de",
    "dutch": "nl",
    "finnish": "fi",
    "french": "fr",
    "german": "de",
    "greek": "el",
    "hindi": "hi",
    "italian": "it",
    "japanese": "ja",
    "jp": "ja",
    "korean": "ko",
    "persian": "fa",
    "polish": "pl",
    "portuguese": "pt",
    "russian": "ru",
    "spanish": "es",
    "swedish": "sv",
    "turkish": "tr",
    "ukrainian": "uk",
}
"""Names and codes of countries that people write, where the first two letters are no help."""


def _known_language(code: str) -> str:
    if code in _CODES:
        return code
    folded = code.strip().casefold()
    meant = _NAMES.get(folded, folded[:2])
    hint = f"did you mean {meant!r}?" if meant in _CODES else "for instance 'en', 'de' or 'zh'"
    raise ValueError(f"must be a language in two letters (ISO 639-1); got {code!r}; {hint}")


LanguageCode = Annotated[str, AfterValidator(_known_language)]
"""The code of a language in two small letters, such as `en`."""
