"""Text-based person retrieval: one list of `{id, split, file_path, captions}`."""

from collections.abc import Iterator
from pathlib import Path

from schemas.json_stream import Element, stream_list
from schemas.records import Granularity
from sources.annotation_file import read_elements
from sources.fields import MISSING, Field, FieldError, RawRow, bad_row, checked_object, checked_rows
from sources.records import BadRow, ReadOptions, Row
from sources.terms import ImporterTerms


class PedesImporter(ImporterTerms):
    """Reads CUHK-PEDES and those that took its form over; `path_field` names the image's path."""

    path_field: str = "file_path"

    def rows(self, path: Path, options: ReadOptions | None = None) -> Iterator[Row]:
        """One row or one bad row for each record, in the file's order.

        Raises:
            FormatError: the file is not of this format.
        """
        options = options or ReadOptions()
        known = {"": frozenset({"id", "captions", self.path_field})}
        for element in read_elements(path, self.format, stream_list, known, options):
            if isinstance(element, BadRow):
                yield element
                continue
            try:
                raw = self._taken_apart(element)
            except FieldError as fault:
                yield bad_row(fault, path.name, element.index, element.value)
            else:
                yield from checked_rows(raw, path.name, options)

    def _taken_apart(self, element: Element) -> RawRow:
        record = checked_object(element.value)
        return RawRow(
            index=element.index,
            identity=Field("id", record.get("id", MISSING)),
            split=Field("split", record.get("split", MISSING)),
            file_path=Field(self.path_field, record.get(self.path_field, MISSING)),
            captions=Field("captions", record.get("captions", MISSING)),
            record=record,
        )


CUHK_PEDES = PedesImporter(
    format="cuhk-pedes",
    licence="Research use only, from the authors on request",
    citation=(
        "Li, Xiao, Li, Zhou, Yue, Wang: Person Search with Natural Language Description. CVPR 2017"
    ),
    homepage="https://github.com/ShuangLI59/Person-Search-with-Natural-Language-Description",
    granularity=Granularity.COARSE,
)
ICFG_PEDES = PedesImporter(
    format="icfg-pedes",
    licence="Research use only, from the authors on request; images from MSMT17 under its terms",
    citation=(
        "Ding, Ding, Shao, Tao: Semantically Self-Aligned Network for Text-to-Image Part-aware "
        "Person Re-identification. arXiv 2107.12666, 2021"
    ),
    homepage="https://github.com/zifyloo/SSAN",
    granularity=Granularity.MEDIUM,
)
RSTPREID = PedesImporter(
    format="rstpreid",
    licence="Research use only; images from MSMT17 under its terms",
    citation=(
        "Zhu, Wang, Li, Wan, Jin, Wang, Hu, Hua: DSSL: Deep Surroundings-person Separation "
        "Learning for Text-based Person Retrieval. ACM Multimedia 2021"
    ),
    homepage="https://github.com/NjtechCVLab/RSTPReid-Dataset",
    granularity=Granularity.MEDIUM,
    path_field="img_path",
)
_UFINEBENCH_CITATION = (
    "Zuo, Zhou, Nie, Zhang, Guo, Sang, Wang, Gao: UFineBench: Towards Text-based Person Retrieval "
    "with Ultra-fine Granularity. CVPR 2024"
)
UFINE6926 = PedesImporter(
    format="ufine6926",
    licence="Research use only, from the authors on request",
    citation=_UFINEBENCH_CITATION,
    homepage="https://github.com/Zplusdragon/UFineBench",
    granularity=Granularity.FINE,
)
UFINE3C = PedesImporter(
    format="ufine3c",
    licence="Research use only, from the authors on request; images under their sources' terms",
    citation=_UFINEBENCH_CITATION,
    homepage="https://github.com/Zplusdragon/UFineBench",
)
