# The names that `loupe` imports when they are used, for type checkers and editors.
from loupe import testing
from loupe.api import images, steps
from loupe.api.llm import llm_step
from loupe.api.models import ChatModel, Detector, Embedder, PoseModel
from loupe.api.pairs import SimilarPair
from loupe.api.pipeline import Pipeline, gate, release, source
from loupe.api.plugging import Format, Page
from loupe.api.reading import open_release, open_store
from loupe.api.records import Record
from loupe.api.similarity import similar
from loupe.api.step import filter, step  # noqa: A004 - the word of the field
from loupe.api.steps import check, describe, near_duplicates
from loupe.api.values import Box, Caption, Crop, Image, Rejection, UnansweredError
from loupe.schemas.errors import LoupeError, UsageError
from loupe.schemas.proposals import Candidate, Strategy, Tracklet
from loupe.schemas.records import Rewrite
from loupe.sources.records import BadRow, ReadOptions, SourceRow

__all__ = [
    "BadRow",
    "Box",
    "Candidate",
    "Caption",
    "ChatModel",
    "Crop",
    "Detector",
    "Embedder",
    "Format",
    "Image",
    "LoupeError",
    "Page",
    "Pipeline",
    "PoseModel",
    "ReadOptions",
    "Record",
    "Rejection",
    "Rewrite",
    "SimilarPair",
    "SourceRow",
    "Strategy",
    "Tracklet",
    "UnansweredError",
    "UsageError",
    "check",
    "describe",
    "filter",
    "gate",
    "images",
    "llm_step",
    "near_duplicates",
    "open_release",
    "open_store",
    "release",
    "similar",
    "source",
    "step",
    "steps",
    "testing",
]
