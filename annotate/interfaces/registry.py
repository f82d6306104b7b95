"""The registry of labelling interfaces."""

from loupe.annotate.interfaces.image_pages import (
    DuplicateCheck,
    ImageCheck,
    ImageFilter,
    ImageSelection,
    TrackletSelection,
)
from loupe.annotate.interfaces.own_pages import NAMES as OWN_PAGES
from loupe.annotate.interfaces.own_pages import OwnPage
from loupe.annotate.interfaces.page import Interface
from loupe.annotate.interfaces.strategy_pages import GroupRefinement, StrategyCheck
from loupe.annotate.interfaces.text_pages import (
    CaptionVerification,
    ConfusingCaption,
    DescriptionWriting,
    RewriteRevision,
    SixWayChoice,
)
from loupe.annotate.queues import Queue
from loupe.schemas.errors import ConfigurationError
from loupe.schemas.plugins import load_plugin, plugins
from loupe.schemas.validation import nearest_hint

INTERFACES: dict[str, Interface] = {
    interface.name: interface
    for interface in (
        DescriptionWriting(),
        RewriteRevision(),
        ImageCheck(),
        ImageSelection(),
        CaptionVerification(),
        ConfusingCaption(),
        DuplicateCheck(),
        SixWayChoice(),
        TrackletSelection(),
        StrategyCheck(),
        ImageFilter(),
        GroupRefinement(),
    )
}


def interface_of(queue: Queue) -> Interface:
    """Return the labelling interface of a queue: a page of Loupe, or of a plugin.

    A plugin names a class of `OwnPage`, or an `Interface`.

    Raises:
        ConfigurationError: there is none of that name, or the plugin cannot be used.
    """
    name = queue.interface
    if name in INTERFACES:
        return INTERFACES[name]
    if name in OWN_PAGES:
        return OwnPage(queue)
    if name not in plugins("pages"):
        known = [*(one.removeprefix("own-") for one in OWN_PAGES), *plugins("pages")]
        raise ConfigurationError(
            f"queue {queue.name}: no page is called {name!r}; {nearest_hint(name, known)}"
        )
    found = load_plugin("pages", name)
    made = found(queue) if page_like(name) else found
    if not isinstance(made, Interface):
        package = plugins("pages")[name].package
        raise ConfigurationError(
            f"the page {name!r} of {package} must be a subclass of loupe.Page; got {made!r:.80}"
        )
    return made


def page_like(name: str) -> str:
    """Return which declared page one of a plugin varies; empty if it is its own.

    Raises:
        ConfigurationError: the plugin cannot be used, or states none that there is.
    """
    found = load_plugin("pages", name)
    if not (isinstance(found, type) and issubclass(found, OwnPage)):
        return ""
    pages = [one.removeprefix("own-") for one in OWN_PAGES]
    if found.like not in pages:
        raise ConfigurationError(
            f"the page {name!r} of {plugins('pages')[name].package} must state like = one of "
            f"{', '.join(pages)}; got {found.like!r:.80}"
        )
    return found.like
