"""The typefaces of the rendered tasks: files inside Python packages, found without importing them.

All are free: SIL Open Font License 1.1, but Permanent Marker (Apache 2.0), DejaVu (Bitstream Vera)
and STIX (OFL), which matplotlib brings along.
"""

import importlib.util
from collections.abc import Callable, Iterable
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Literal

from PIL import ImageFont

from schemas.base import Record
from schemas.errors import ConfigurationError

Style = Literal["handwritten", "serif", "sans-serif", "monospaced", "chinese"]
FindPackage = Callable[[str], Path | None]


class Typeface(Record):
    """A font file inside an installed package.

    Attributes:
        package: what it is installed by.
        module: the importable folder of that package.
        file: its path inside the folder.
        axes: weight and other axes of a variable font, in the font's order.
        scale: what a size is multiplied by, so that digits of all typefaces look equally tall.
    """

    name: str
    style: Style
    package: str
    module: str
    file: str
    axes: tuple[int, ...] = ()
    scale: float = 1.0


def _google(
    name: str, style: Style, file: str, axes: tuple[int, ...] = (), scale: float = 1.0
) -> Typeface:
    package = "fontpkg-" + name.lower().replace(" ", "-")
    return Typeface(
        name=name,
        style=style,
        package=package,
        module=package.replace("-", "_"),
        file=f"files/{file}",
        axes=axes,
        scale=scale,
    )


def _matplotlib(name: str, style: Style, file: str) -> Typeface:
    file = f"mpl-data/fonts/ttf/{file}"
    return Typeface(name=name, style=style, package="matplotlib", module="matplotlib", file=file)


def _chinese(name: str, file: str) -> Typeface:
    package = "pylopdf-fonts-zh-cn"
    module = package.replace("-", "_")
    return Typeface(name=name, style="chinese", package=package, module=module, file=file)


TYPEFACES = (
    _google("Caveat", "handwritten", "Caveat[wght].ttf", (600,), 1.3),
    _google("Kalam", "handwritten", "Kalam-Regular.ttf"),
    _google("Indie Flower", "handwritten", "IndieFlower-Regular.ttf", scale=1.1),
    _google("Shadows Into Light", "handwritten", "ShadowsIntoLight.ttf", scale=1.2),
    _google("Permanent Marker", "handwritten", "PermanentMarker-Regular.ttf", scale=0.95),
    _google("Delius", "handwritten", "Delius-Regular.ttf"),
    _google("EB Garamond", "serif", "EBGaramond[wght].ttf", (500,), 1.15),
    _google("Lora", "serif", "Lora[wght].ttf", (500,)),
    _google("Roboto Slab", "serif", "RobotoSlab[wght].ttf", (400,)),
    _matplotlib("STIX", "serif", "STIXGeneral.ttf"),
    _matplotlib("DejaVu Serif", "serif", "DejaVuSerif.ttf"),
    _google("Open Sans", "sans-serif", "OpenSans[wdth,wght].ttf", (500, 100)),
    _matplotlib("DejaVu Sans", "sans-serif", "DejaVuSans.ttf"),
    _google("JetBrains Mono", "monospaced", "JetBrainsMono[wght].ttf", (400,)),
    _google("Fira Code", "monospaced", "FiraCode[wght].ttf", (400,)),
    _google("Source Code Pro", "monospaced", "SourceCodePro[wght].ttf", (400,)),
    _google("IBM Plex Mono", "monospaced", "IBMPlexMono-Regular.ttf"),
    _matplotlib("DejaVu Sans Mono", "monospaced", "DejaVuSansMono.ttf"),
    _chinese("Noto Sans SC", "NotoSansSC-Regular.otf"),
    _chinese("Noto Serif SC", "NotoSerifSC-Regular.otf"),
)
_BY_NAME = {typeface.name: typeface for typeface in TYPEFACES}


def installed_folder(module: str) -> Path | None:
    """The folder of a top-level package, which is not imported; None where it is not installed."""
    spec = importlib.util.find_spec(module)
    if spec is None or not spec.submodule_search_locations:
        return None
    return Path(spec.submodule_search_locations[0])


class FontShelf:
    """Fonts by name and size; `find` says where a package lies."""

    def __init__(self, find: FindPackage = installed_folder) -> None:
        self._find = find
        self._load = lru_cache(maxsize=256)(self._loaded)

    def font(self, name: str, size_px: float) -> ImageFont.FreeTypeFont:
        """The typeface `name` with letters of about `size_px` pixels.

        Raises:
            ConfigurationError: its package is not installed, or its file cannot be read.
        """
        return self._load(name, round(size_px * _BY_NAME[name].scale))

    def require(self, names: Iterable[str]) -> None:
        """Sees that all the named typefaces can be had.

        Raises:
            ConfigurationError: one cannot; the sentence names it and its package.
        """
        for name in names:
            self.font(name, 20)

    def names(self, *styles: Style) -> tuple[str, ...]:
        """The names of all typefaces of these styles, installed or not."""
        return tuple(face.name for face in TYPEFACES if face.style in styles)

    def undrawable(self, text: str, *styles: Style) -> str | None:
        """The first character of `text` that a typeface of these styles has no glyph for.

        Raises:
            ConfigurationError: a typeface cannot be had.
        """
        for name in self.names(*styles):
            font = self.font(name, _GLYPH_PX)
            missing = bytes(font.getmask(_NO_CHARACTER))
            for letter in text:
                if not letter.isspace() and bytes(font.getmask(letter)) == missing:
                    return letter
        return None

    @cached_property
    def styles(self) -> dict[str, Style]:
        """The style of every typeface."""
        return {face.name: face.style for face in TYPEFACES}

    def _loaded(self, name: str, pixels: int) -> ImageFont.FreeTypeFont:
        face = _BY_NAME[name]
        folder = self._find(face.module)
        if folder is None:
            raise ConfigurationError(
                f"the font {name!r} is not installed, wanted the package {face.package!r}; "
                f"install it with: uv pip install {face.package}"
            )
        try:
            # Basic layout: the other one depends on a library of the machine.
            font = ImageFont.truetype(folder / face.file, pixels, layout_engine=_LAYOUT)
        except OSError as fault:
            raise ConfigurationError(
                f"the font {name!r} of the package {face.package!r} cannot be read: {fault}"
            ) from fault
        if face.axes:
            font.set_variation_by_axes(list(face.axes))
        return font


_LAYOUT = ImageFont.Layout.BASIC
_GLYPH_PX = 24
_NO_CHARACTER = "\U0010ffff"  # what fonts draw for it, they draw for all that they do not have
