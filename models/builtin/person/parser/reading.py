"""The state of a reader: where it is in the text, and what the next words will be said of."""

from dataclasses import dataclass, field

from models.builtin.person.description import Description, Place, Role, Thing
from models.builtin.person.lexicon import Lexicon, Tag
from models.builtin.person.mentions import NOTHING, Mention
from schemas.faithfulness import Span

MODIFIERS = frozenset(
    (
        Tag.COLOUR,
        Tag.SHADE,
        Tag.PATTERN,
        Tag.MATERIAL,
        Tag.SLEEVE,
        Tag.REACH,
        Tag.SIZE,
        Tag.AGE,
        Tag.HEIGHT,
        Tag.BUILD,
        Tag.SKIN_TONE,
    )
)
HEADS = frozenset((Tag.ITEM, Tag.PART, Tag.HAIR, Tag.SKIN, Tag.FIGURE, Tag.PERSON))
_NAMING = MODIFIERS | {Tag.OTHER, Tag.HAIR_STYLE, Tag.ITEM, Tag.PART, Tag.COLOUR_NOUN}
_JOINING = frozenset((Tag.AND, Tag.COMMA))
_BEFORE_HEAD = MODIFIERS | _JOINING | {Tag.FILLER, Tag.OTHER, Tag.HAIR_STYLE}


@dataclass(slots=True)
class NounPhrase:
    """A noun phrase before its head: modifiers, article, and the two mentions before the former."""

    modifiers: list[Mention] = field(default_factory=list)
    before: Mention = NOTHING
    earlier_still: Mention = NOTHING
    definite: bool = False
    indefinite: bool = False


@dataclass(slots=True)
class Reading:
    """One pass over one text.

    Attributes:
        position: the mention at which the reader is.
        skin: a thing to say modifiers of; what it states is a fact of the person.
        phrase: the noun phrase that the reader is in.
        joining: positions of the commas and conjunctions that ended no noun phrase.
        subject: what a copula will speak of; two parts may share it.
        focus: what «it» means.
        last: the thing named last, which «in blue» and «and trousers» go on about.
        owner: the item that parts, sleeves and hems belong to.
        open_parts: parts whose item may still follow («the brim and the crown of the hat»).
        side: a side of the body named before what is there («in her right hand is …»).
        sentence_items: the items of this sentence.
        copula: whether «is» came, and no head since.
        person_acts: whether the next verb is the person's and not an item's.
        negated: whether «no» or «without» came, and no head since.
        carrying: whether a verb of holding came, and no head since.
        after_with: whether «with» came, and no head since: what follows belongs to something.
        and_after_head: whether the reader is after «hat and», where the next noun may share.
    """

    lexicon: Lexicon
    mentions: list[Mention]
    description: Description
    position: int = 0
    skin: Thing = field(default_factory=lambda: Thing(Role.PERSON, "skin"))
    phrase: NounPhrase = field(default_factory=NounPhrase)
    joining: set[int] = field(default_factory=set)
    subject: list[Thing] = field(default_factory=list)
    focus: Thing | None = None
    last: Thing | None = None
    owner: Thing | None = None
    open_parts: list[Thing] = field(default_factory=list)
    side: tuple[Place, Span] | None = None
    sentence_items: list[Thing] = field(default_factory=list)
    copula: bool = False
    person_acts: bool = False
    negated: bool = False
    carrying: bool = False
    after_with: bool = False
    and_after_head: bool = False

    def at(self, offset: int) -> Mention:
        """The mention so many places further on (or back, if negative)."""
        position = self.position + offset
        return self.mentions[position] if 0 <= position < len(self.mentions) else NOTHING

    def head_ahead(self) -> bool:
        """Whether modifiers, commas and conjunctions run from here to a head without an article."""
        for mention in self.mentions[self.position + 1 :]:
            if mention.among(HEADS):
                return True
            if not mention.among(_BEFORE_HEAD):
                return False
        return False

    def take_modifier(self, mention: Mention) -> None:
        """Keeps a modifier for the head, or for what a phrase without a head speaks of."""
        phrase = self.phrase
        if not phrase.modifiers:
            phrase.before, phrase.earlier_still = self.at(-1), self.at(-2)
        phrase.modifiers.append(mention)

    def name_span(self, head: Mention) -> Span:
        """The head with the modifiers before it, known and unknown, without the article."""
        start = scan = self.position
        while scan > 0:
            scan -= 1
            if self.mentions[scan].among(_NAMING):
                start = scan
            elif scan not in self.joining:
                break
        return (self.mentions[start].span[0], head.span[1])

    def end_phrase(self, thing: Thing) -> None:
        """A head closed the noun phrase, as a name of `thing`."""
        phrase = self.phrase
        phrase.modifiers, self.last = [], thing
        phrase.definite = phrase.indefinite = False
        self.copula = self.after_with = self.and_after_head = self.carrying = False
        if self.at(1).phrase not in ("or", "nor"):
            self.negated = False

    def end_sentence(self) -> None:
        """Only what was named stays: it may be meant by «it» or «the hat»."""
        self.subject, self.open_parts, self.sentence_items = [], [], []
        self.side = None
        self.copula = self.person_acts = self.negated = self.carrying = False
        self.after_with = self.and_after_head = False
