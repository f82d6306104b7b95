"""What a build states on faces holds for its sources."""

import pytest
from pydantic import ValidationError

from loupe.schemas.build import CcdBuild, SourceSpec, UFine6926Build

SOURCE = {"name": "coco", "format": "coco-captions", "annotations": "/a.json", "images": "/i"}


def test_a_source_without_a_key_of_its_own_is_treated_as_the_build_says() -> None:
    own = {**SOURCE, "name": "own", "faces": "keep"}
    build = CcdBuild.model_validate({"faces": "blur", "sources": [SOURCE, own]})
    assert [one.faces for one in build.sources] == ["blur", "keep"]
    specs = (SourceSpec(**SOURCE), SourceSpec(**own))
    assert [one.faces for one in CcdBuild(faces="replace", sources=specs).sources] == [
        "replace",
        "keep",
    ]


def test_videos_take_the_key_too_and_faces_are_kept_by_default() -> None:
    videos = {"name": "street", "videos": ["/a.mp4"], "licence": "CC0-1.0"}
    assert UFine6926Build.model_validate({"sources": [videos]}).sources[0].faces == "keep"
    build = UFine6926Build.model_validate({"faces": "blur", "sources": [videos]})
    assert build.sources[0].faces == "blur"


def test_an_unknown_treatment_is_refused() -> None:
    with pytest.raises(ValidationError, match="faces"):
        CcdBuild.model_validate({"faces": "blurr", "sources": [SOURCE]})
