"""Hotkeys of the pages: each has one function and none conflicts with Label Studio."""

import xml.etree.ElementTree as ET
from collections import Counter

from loupe.annotate.interfaces.image_pages import FRAME_KEYS, OTHER_KEYS, TrackletSelection
from loupe.annotate.interfaces.page import Interface
from loupe.annotate.interfaces.registry import INTERFACES

# Single keys with a function in Label Studio 1.23 if there are images but no drawing tools:
# unselect, pan, move, focus, leave, delete, step through images and tasks, zoom to a size.
TAKEN = {"u", "h", "v", "enter", "escape", "backspace", "delete", "left", "right", "up", "down"}
TAKEN |= {"shift+1", "shift+2", "shift+up", "shift+down", "shift+left", "shift+right", "shift+."}


def keys_of(interface: Interface) -> list[str]:
    page = ET.fromstring(interface.config)  # noqa: S314 - our own page
    keys = [key for tag in page.iter() if (key := tag.get("hotkey"))]
    if isinstance(interface, TrackletSelection):
        keys += [*FRAME_KEYS, *(f"shift+{key}" for key in FRAME_KEYS), *OTHER_KEYS]
    return keys


def test_every_fixed_choice_has_a_unique_hotkey() -> None:
    for name, interface in INTERFACES.items():
        keys = keys_of(interface)
        assert keys, name
        assert [key for key, count in Counter(keys).items() if count > 1] == [], name
        assert TAKEN.isdisjoint(keys), name
        page = ET.fromstring(interface.config)  # noqa: S314 - our own page
        keyless = [tag.get("value") for tag in page.iter("Choice") if not tag.get("hotkey")]
        assert keyless == [], name
