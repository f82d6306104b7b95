"""Build files: relative paths, and errors that name the wrong key."""

import re
from pathlib import Path

import pytest

from loupe.flows.engine.pipeline import load_build
from loupe.release.card.published import RECOS_TASKS
from loupe.schemas.build import Build, CcdBuild, RecosBuild, UFine3CBuild, UFine6926Build
from loupe.schemas.errors import ConfigurationError

BUILD = """
dataset = "mine"
gate = "auto"
[[sources]]
name = "people"
format = "cuhk-pedes"
annotations = "people/list.json"
images = "/data/people"
"""


def write(folder: Path, text: str = BUILD) -> Path:
    path = folder / "build.toml"
    path.write_text(text, encoding="utf-8")
    return path


def test_paths_are_relative_to_the_build_file(tmp_path: Path) -> None:
    build = load_build(write(tmp_path), UFine3CBuild)
    assert build.dataset == "mine"
    assert build.identities_per_source == 750
    assert build.sources[0].annotations == tmp_path / "people/list.json"
    assert build.sources[0].images == Path("/data/people")


def test_a_tilde_is_the_home_folder_of_the_user(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", "/home-of-somebody")
    build = load_build(write(tmp_path, BUILD.replace("/data", "~/data")), UFine3CBuild)
    assert build.sources[0].images == Path("/home-of-somebody/data/people")


def test_an_error_names_the_wrong_key(tmp_path: Path) -> None:
    cases = [
        ("dataset", "datset", "unknown key 'datset'; did you mean 'dataset'"),
        (
            "format",
            "formta",
            r"\[\[sources\]\] 'people': unknown key 'formta'; did you mean 'format'",
        ),
        ('name = "people"', 'name = "people"\nsplit = "tset"', "split: .* got 'tset'"),
        ('"mine"', '"../mine"', r"dataset: must be up to 64 .* got '\.\./mine'"),
        ('"mine"', '"people"', "dataset must not have the name of a source; got 'people'"),
        ("[[sources]]", "sources = []\n[[x]]", "sources: must have at least 1 item"),
        ('"mine"', '"mine', "is not valid TOML"),
        ('"mine"', '"mine"\nidentities_per_source = 0', "identities_per_source: .* got 0"),
    ]
    for old, new, sentence in cases:
        with pytest.raises(ConfigurationError) as raised:
            load_build(write(tmp_path, BUILD.replace(old, new, 1)), UFine3CBuild)
        assert re.search(sentence, str(raised.value)), new
        assert "build.toml" in str(raised.value), new


GATED = {
    UFine3CBuild: ("originals_gate", "rewrites_gate"),
    UFine6926Build: ("tracklets_gate", "descriptions_gate"),
    RecosBuild: ("selection_gate", "captions_gate", "confusions_gate", "duplicates_gate"),
    CcdBuild: ("strategies_gate", "candidates_gate", "groups_gate"),
}
REQUIRED = {
    UFine6926Build: '[[sources]]\nname = "s"\nvideos = "v"\nlicence = "CC0-1.0"\n',
    RecosBuild: '[[tasks]]\ntask = "numerical calculation"\nimages = 2\n',
}


@pytest.mark.parametrize("form", GATED)
def test_a_build_file_states_who_reviews_at_every_gate(tmp_path: Path, form: type[Build]) -> None:
    text = REQUIRED.get(form, BUILD[BUILD.index("[[sources]]") :])
    for given in ("", *(f'{key} = "auto"\n' for key in GATED[form][1:])):
        with pytest.raises(ConfigurationError) as raised:
            load_build(write(tmp_path, given + text), form)
        for choice in ("does not say who reviews", '"required"', '"sample:0.1"', '"auto"'):
            assert choice in str(raised.value)
    common = load_build(write(tmp_path, f'gate = "sample:0.2"\n{text}'), form)
    assert common.gates == dict.fromkeys(GATED[form], "sample:0.2"), "spot checks stay off"
    each = "".join(f'{key} = "required"\n' for key in GATED[form])
    assert set(load_build(write(tmp_path, each + text), form).gates.values()) == {"required"}


def test_gates_of_versions_that_are_not_built_need_no_policy(tmp_path: Path) -> None:
    gates = 'last = "v0"\nselection_gate = "auto"\ncaptions_gate = "auto"\n'
    build = load_build(write(tmp_path, gates + REQUIRED[RecosBuild]), RecosBuild)
    assert list(build.gates) == ["selection_gate", "captions_gate"]


def test_two_sources_with_the_same_name_are_refused(tmp_path: Path) -> None:
    twice = BUILD + BUILD[BUILD.index("[[sources]]") :]
    with pytest.raises(ConfigurationError, match="sources must differ in name; got people twice"):
        load_build(write(tmp_path, twice), UFine3CBuild)


def test_an_error_names_the_file_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"none\.toml cannot be read: does not exist"):
        load_build(tmp_path / "none.toml", UFine3CBuild)
    with pytest.raises(ConfigurationError, match=r"nor the name of a paper's build \(ccd-coco, "):
        load_build(Path("ufin3c"), UFine3CBuild)


VIDEO_BUILD = """
dataset = "walkers"
gate = "auto"
tracklets_gate = "required"
[[sources]]
name = "street"
videos = ["clips/*.mp4", "s3://bucket/street", "/data/list.txt"]
licence = "CC BY 4.0"
every_nth_frame = 3
"""


def test_video_paths_are_relative_to_the_build_file(tmp_path: Path) -> None:
    build = load_build(write(tmp_path, VIDEO_BUILD), UFine6926Build)
    (street,) = build.sources
    assert street.videos == (str(tmp_path / "clips/*.mp4"), "s3://bucket/street", "/data/list.txt")
    assert (build.tracklets_gate, build.descriptions_gate) == ("required", "auto")
    assert build.test_share == pytest.approx(2000 / 6926, abs=1e-3)


def test_an_unknown_home_is_reported(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="'~nosuchuser/v' begins with the home folder of"):
        load_build(
            write(tmp_path, VIDEO_BUILD.replace("clips/*.mp4", "~nosuchuser/v")), UFine6926Build
        )
    with pytest.raises(ConfigurationError, match=r"'~nosuchuser/list\.json' begins with"):
        load_build(
            write(tmp_path, BUILD.replace("people/list.json", "~nosuchuser/list.json")),
            UFine3CBuild,
        )


def test_an_error_names_the_wrong_key_of_a_video_build(tmp_path: Path) -> None:
    cases = [
        ('licence = "CC BY 4.0"', "", r"\[\[sources\]\] 'street': licence is missing"),
        ('"CC BY 4.0"', '" "', "licence: .* got ' '"),
        ("every_nth_frame = 3", "every_nth_frame = 0", "every_nth_frame: .* got 0"),
        ('"walkers"', '"street"', "dataset must not have the name of a source"),
        ("tracklets_gate", "tracklet_gate", "unknown key 'tracklet_gate'; did you mean 'trackle"),
        ('"required"', '"requird"', "tracklets_gate: must be 'required', .* got 'requird'"),
        ('"required"', '"sample:1.5"', "tracklets_gate: .* rate from 0 to 1, got 'sample:1.5'"),
    ]
    for old, new, sentence in cases:
        with pytest.raises(ConfigurationError) as raised:
            load_build(write(tmp_path, VIDEO_BUILD.replace(old, new, 1)), UFine6926Build)
        assert re.search(sentence, str(raised.value)), new


def test_folders_to_compare_a_release_with_are_relative_to_the_build_file(tmp_path: Path) -> None:
    (tmp_path / "images").mkdir()
    against = 'against = ["images", "test=images", "coco@1.0.0"]\n'
    build = load_build(write(tmp_path, against + BUILD), UFine3CBuild)
    assert build.against == (f"{tmp_path}/images", f"test={tmp_path}/images", "coco@1.0.0")
    assert load_build(write(tmp_path, 'against = "cuhk"\n' + BUILD), UFine3CBuild).against == (
        "cuhk",
    )


def test_the_builds_of_the_papers_are_included_with_all_gates_required(tmp_path: Path) -> None:
    ufine3c, recos = (
        load_build(tmp_path / "ufine3c", UFine3CBuild),
        load_build(tmp_path / "recos", RecosBuild),
    )
    builds = [
        ufine3c,
        recos,
        load_build(tmp_path / "ufine6926", UFine6926Build),
        load_build(tmp_path / "ccd-coco", CcdBuild),
        load_build(tmp_path / "ccd-flickr", CcdBuild),
    ]
    for build in builds:
        assert set(build.gates.values()) == {"required"}, build
    assert ufine3c.sources[0].images == tmp_path / "CUHK-PEDES/imgs"
    tasks = {one.task: one.images for one in recos.tasks}
    assert tasks == RECOS_TASKS


SOURCE = BUILD[BUILD.index("[[sources]]") :]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            f"dataset = x\n{SOURCE}",
            "line 1, 'dataset = x': a text must be in straight quotes: dataset = \"x\"",
        ),
        (f"gate = “auto”\n{SOURCE}", 'a text must be in straight quotes: gate = "auto"'),
        (f"gate: auto\n{SOURCE}", "line 1, 'gate: auto': expected = after the key: gate = …"),
        (f'dataset = "x\n{SOURCE}', "line 1, 'dataset = \"x': a text must end with a quote"),
        ('{"dataset": "x"}', "it looks like JSON; expected lines such as key ="),
        (
            SOURCE.replace("[[sources]]", "[sources]"),
            "sources: must be a list of tables, got one: write [[sources]] above each",
        ),
        (
            SOURCE.replace("annotations", "anotations"),
            "[[sources]] 'people': unknown key 'anotations'; did you mean 'annotations'?",
        ),
        (SOURCE.replace("sources", "source"), "unknown key 'source'; did you mean 'sources'?"),
        ("sources = 'a.json'", "sources: must be a list, got 'a.json'"),
    ],
)
def test_a_slip_in_a_build_file_is_named_with_what_is_expected(
    tmp_path: Path, text: str, message: str
) -> None:
    with pytest.raises(ConfigurationError) as raised:
        load_build(write(tmp_path, text), UFine3CBuild)
    assert message in str(raised.value)


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16"])
def test_a_build_file_may_have_a_byte_order_mark(tmp_path: Path, encoding: str) -> None:
    path = tmp_path / "build.toml"
    path.write_text(f'gate = "auto"\n{SOURCE}', encoding=encoding)
    assert load_build(path, UFine3CBuild).sources[0].name == "people"
