"""Signing releases with a key of the environment and checking signatures in their folder."""

import json
import os
import shutil
import subprocess
from itertools import product
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, generate_private_key
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from typer.testing import CliRunner, Result

from loupe.flows.cli.release import app
from loupe.flows.engine.releasing import release_signer, sign_release
from loupe.models.profiles.settings import load_settings
from loupe.release.build import build_release
from loupe.release.format.manifest import read_manifest
from loupe.release.format.signing import (
    SIGNATURE,
    Signature,
    Signer,
    public_key_called,
    read_signature,
    signer_from_pem,
    write_signature,
)
from loupe.release.verify import verify_release
from loupe.schemas.errors import ConfigurationError, IntegrityError, UsageError
from tests.release.worlds import DATASET, World, small_world, store_world

KEY = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))
OTHER = Signer(Ed25519PrivateKey.from_private_bytes(bytes(range(1, 33))))
PEM = KEY.private_bytes(
    serialization.Encoding.PEM,
    serialization.PrivateFormat.PKCS8,
    serialization.NoEncryption(),
)
PUBLIC = KEY.public_key().public_bytes_raw().hex()
# Secret and public key of the third test vector in RFC 8032, section 7.1.
RFC_SECRET = "c5aa8df43f9f837bedb7442f31dcb7b166d38535076f094b85ce3a2e0b4458f7"
RFC_PUBLIC = "fc51cd8e6218a1a38da47ed00230f0580816ed13ba3303ac5deb911548908025"


@pytest.fixture(scope="module")
def signed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("signed")
    world = store_world(home / "world", small_world(2).contents())
    built = build_release(
        world.store, world.blobs, DATASET, "1.0.0", home / "out", signer=Signer(KEY)
    )
    world.store.close()
    return built.folder


@pytest.fixture
def copy(signed: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(signed, tmp_path / "copy"))


def faults(folder: Path, public_key: str | None = None) -> list[str]:
    return [one.fault for one in verify_release(folder, public_key=public_key).problems]


def test_a_signed_release_verifies(signed: Path) -> None:
    assert faults(signed) == []
    assert faults(signed, PUBLIC) == []
    found = read_signature(signed)
    assert found is not None
    assert (found.public_key, found.release) == (PUBLIC, read_manifest(signed).id)


def test_the_id_does_not_depend_on_the_signature(copy: Path) -> None:
    assert SIGNATURE not in (copy / "manifest.json").read_text("utf-8")
    (copy / SIGNATURE).unlink()
    assert faults(copy) == []
    assert faults(copy, PUBLIC) == ["signature_missing"]


def test_the_public_key_equals_the_test_vector_of_rfc_8032() -> None:
    signer = Signer(Ed25519PrivateKey.from_private_bytes(bytes.fromhex(RFC_SECRET)))
    assert signer.public_key == RFC_PUBLIC


def test_signing_is_deterministic(signed: Path) -> None:
    again = signer_from_pem(PEM, "the test").sign(read_manifest(signed).id)
    assert (signed / SIGNATURE).read_bytes() == again.text()


def test_invalid_signatures_are_distinguished(copy: Path) -> None:
    release_id = read_manifest(copy).id
    signature = Signer(KEY).sign(release_id)
    write_signature(copy, signature.model_copy(update={"signature": "0" * 128}))
    assert faults(copy) == ["signature_wrong"]
    write_signature(copy, Signer(KEY).sign("0" * 64))
    assert faults(copy) == ["signature_of_other_release"]
    write_signature(copy, OTHER.sign(release_id))
    assert faults(copy) == []
    assert faults(copy, PUBLIC) == ["signature_by_other_key"]
    for text in (b"", b"[]", b"{", b"\xff", b"x" * 10_000_000, signature.text() + b" "):
        (copy / SIGNATURE).write_bytes(text)
        assert faults(copy) == ["signature_unreadable"]


WEAK = (
    "00" * 32,
    "01" + "00" * 31,
    "26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05",
    "c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a",
    *(f"{first}{'ff' * 30}7f" for first in ("ec", "ed", "ee")),
)


def test_a_key_with_which_anybody_can_sign_is_refused(copy: Path) -> None:
    fits_all = "01" + "00" * 63  # of any text, by the neutral element
    release = read_manifest(copy).id
    for key, sign in product(WEAK, (0, 0x80)):
        signed_key = f"{key[:-2]}{int(key[-2:], 16) | sign:02x}"
        forged = Signature(public_key=signed_key, release=release, signature=fits_all)
        assert not forged.is_right(), signed_key
    write_signature(copy, forged)
    assert faults(copy) == faults(copy, signed_key) == ["signature_by_weak_key"]


def test_public_keys_are_read_from_hex_digits_or_files(tmp_path: Path) -> None:
    pem = KEY.public_key().public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    (tmp_path / "key.pem").write_bytes(pem)
    (tmp_path / "key.txt").write_text(f"{PUBLIC}\n")
    (tmp_path / "no.pem").write_bytes(PEM)
    for given in (PUBLIC, f" {PUBLIC.upper()}", tmp_path / "key.pem", tmp_path / "key.txt"):
        assert public_key_called(str(given)) == PUBLIC
    with pytest.raises(UsageError, match="holds no Ed25519 public key"):
        public_key_called(str(tmp_path / "no.pem"))
    os.mkfifo(tmp_path / "pipe")  # reading it would never end
    for given in ("abc", "", "\0", str(tmp_path / "pipe")):
        with pytest.raises(UsageError, match="must be 64 hex digits or a file"):
            public_key_called(given)


def key_file(folder: Path) -> Path:
    path = folder / "key.pem"
    path.write_bytes(PEM)
    path.chmod(0o600)
    return path


def test_the_signing_key_is_read_from_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert release_signer(load_settings()) is None
    monkeypatch.setenv("LOUPE_SIGNING_KEY", PEM.decode())
    signer = release_signer(load_settings())
    assert signer is not None
    assert signer.public_key == PUBLIC
    monkeypatch.setenv("LOUPE_SIGNING_KEY_FILE", str(key_file(tmp_path)))
    with pytest.raises(ConfigurationError, match="not both"):
        release_signer(load_settings())
    monkeypatch.delenv("LOUPE_SIGNING_KEY")
    signer = release_signer(load_settings())
    assert signer is not None
    assert signer.public_key == PUBLIC
    monkeypatch.setenv("LOUPE_SIGNING_KEY_FILE", str(tmp_path / "nothing.pem"))
    with pytest.raises(ConfigurationError, match=r"LOUPE_SIGNING_KEY_FILE: .* cannot be read"):
        release_signer(load_settings())


def test_a_key_file_readable_by_others_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = key_file(tmp_path)
    monkeypatch.setenv("LOUPE_SIGNING_KEY_FILE", str(path))
    for mode in (0o644, 0o640, 0o602):
        path.chmod(mode)
        with pytest.raises(ConfigurationError, match=f"{mode:03o}.* chmod 600"):
            release_signer(load_settings())
    monkeypatch.setenv("LOUPE_SIGNING_KEY_FILE", "/dev/zero")
    with pytest.raises(ConfigurationError):
        release_signer(load_settings())


def test_the_signing_key_is_never_printed(monkeypatch: pytest.MonkeyPatch) -> None:
    secret = PEM.decode().splitlines()[1]
    monkeypatch.setenv("LOUPE_SIGNING_KEY", PEM.decode())
    settings = load_settings()
    assert secret not in f"{settings} {settings!r}"
    monkeypatch.setenv("LOUPE_SIGNING_KEY", PEM.decode().replace("PRIVATE", "PRIVAT"))
    with pytest.raises(ConfigurationError, match="must hold an Ed25519 private key") as refused:
        release_signer(load_settings())
    assert secret not in str(refused.value)
    monkeypatch.setenv("LOUPE_PREFECT_PORT", "many")
    with pytest.raises(ConfigurationError) as refused:
        load_settings()
    assert secret not in str(refused.value)


def test_only_unencrypted_ed25519_keys_are_accepted() -> None:
    curve = generate_private_key(SECP256R1()).private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    locked = KEY.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.BestAvailableEncryption(b"password"),
    )
    for pem in (curve, locked, b"", b"nonsense"):
        with pytest.raises(ConfigurationError, match="must hold an Ed25519 private key as PEM"):
            signer_from_pem(pem, "the test")


def test_a_damaged_release_is_not_signed_by_building_it_again(tmp_path: Path) -> None:
    world = store_world(tmp_path / "world", small_world(2).contents())

    def build(signer: Signer | None = None) -> Path:
        folder = tmp_path / "out"
        return build_release(
            world.store, world.blobs, DATASET, "1.0.0", folder, signer=signer
        ).folder

    image = build() / "images/1.jpg"
    data = image.read_bytes()
    image.write_bytes(data[:-1] + b"x")
    with pytest.raises(IntegrityError, match=r"images/1\.jpg"):
        build(Signer(KEY))
    assert not (tmp_path / "out" / SIGNATURE).exists()
    image.write_bytes(data)
    assert faults(build(Signer(KEY)), PUBLIC) == []
    world.store.close()


def test_a_damaged_release_is_not_signed(copy: Path) -> None:
    (copy / SIGNATURE).unlink()
    (copy / "images/1.jpg").write_bytes(b"x")
    with pytest.raises(IntegrityError, match="is not signed because it is not sound"):
        sign_release(copy, Signer(KEY))
    assert not (copy / SIGNATURE).exists()


def loupe_release(*arguments: str | Path) -> Result:
    return CliRunner().invoke(app, [str(one) for one in arguments])


def test_build_sign_and_verify_commands_with_a_signing_key(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LOUPE_HOME", str(tmp_path / "world"))
    out = tmp_path / "out"
    loupe_release("build", DATASET, "--version", "1.0.0", "--out", out)
    assert not (out / SIGNATURE).exists()
    monkeypatch.setenv("LOUPE_SIGNING_KEY_FILE", str(key_file(tmp_path)))
    details = json.loads(loupe_release("sign", out, "--json").stdout)
    assert (details["public_key"], details["is_new"]) == (PUBLIC, True)
    assert "is signed already, unchanged" in loupe_release("sign", out).stdout
    assert f"signed by the key {PUBLIC}" in loupe_release("verify", out).stdout
    other = loupe_release("verify", out, "--public-key", "0" * 64, "--json")
    found = json.loads(other.stdout)
    assert (other.exit_code, found["problems"][0]["fault"]) == (1, "signature_by_other_key")
    loupe_release("build", DATASET, "--version", "1.0.1", "--out", tmp_path / "next")
    assert faults(tmp_path / "next", PUBLIC) == []


def test_a_newer_release_that_is_known_is_named(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LOUPE_SIGNING_KEY_FILE", str(key_file(tmp_path)))
    monkeypatch.setenv("LOUPE_HOME", str(tmp_path / "world"))
    older, newer = tmp_path / "older", tmp_path / "kept/newer"
    for folder, version in ((older, "1.0.0"), (newer, "1.0.1")):
        loupe_release("build", DATASET, "--version", version, "--out", folder)
    by_store = loupe_release("verify", older, "--public-key", PUBLIC)
    assert (by_store.exit_code, f"1.0.1 in {newer} is newer" in by_store.stdout) == (0, True)

    monkeypatch.setenv("LOUPE_HOME", str(tmp_path / "elsewhere"))
    asked = ("verify", older, "--newest", "--public-key", PUBLIC, "--json")
    assert loupe_release(*asked).exit_code == 0
    beside = tmp_path / "beside"
    shutil.copytree(newer, beside)
    found = loupe_release(*asked)
    assert found.exit_code == 1
    assert [one["fault"] for one in json.loads(found.stdout)["problems"]] == ["not_newest"]
    assert json.loads(found.stdout)["newer"]["version"] == "1.0.1"
    assert loupe_release("verify", beside, "--newest").exit_code == 0
    write_signature(beside, OTHER.sign(read_manifest(beside).id))  # a stranger's
    assert loupe_release(*asked).exit_code == 0
    assert loupe_release("verify", older, "--newest").exit_code == 1


def test_a_repeated_build_signs_the_existing_release(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LOUPE_HOME", str(tmp_path / "world"))
    out = tmp_path / "out"
    build = ("build", DATASET, "--version", "1.0.0", "--out", out)
    loupe_release(*build)
    monkeypatch.setenv("LOUPE_SIGNING_KEY_FILE", str(key_file(tmp_path)))
    again = loupe_release(*build)
    assert ("already exists, unchanged" in again.stdout, again.stderr) == (True, "")
    assert faults(out, PUBLIC) == []
    assert loupe_release(*build).stderr == ""
    other = OTHER.sign(read_manifest(out).id)
    write_signature(out, other)
    details = loupe_release(*build)
    assert details.exit_code == 0
    assert details.stderr.startswith("warning: the release was not signed with the key of this")
    assert f"{out} is signed already, by the key {other.public_key}" in details.stderr
    assert (out / SIGNATURE).read_bytes() == other.text()
    (out / SIGNATURE).write_text("{}")
    assert "remove it and sign again" in loupe_release(*build).stderr


@pytest.mark.skipif(shutil.which("openssl") is None, reason="there is no openssl")
def test_keys_and_signatures_are_compatible_with_openssl(tmp_path: Path) -> None:
    def openssl(*arguments: str) -> None:
        subprocess.run(
            ["openssl", *arguments], cwd=tmp_path, check=True, capture_output=True, env=os.environ
        )

    openssl("genpkey", "-algorithm", "ed25519", "-out", "key.pem")
    openssl("pkey", "-in", "key.pem", "-pubout", "-out", "public.pem")
    signer = signer_from_pem((tmp_path / "key.pem").read_bytes(), "key.pem")
    assert public_key_called(str(tmp_path / "public.pem")) == signer.public_key
    signature = signer.sign("0" * 64)
    (tmp_path / "text").write_text(f"loupe release {'0' * 64}")
    (tmp_path / "made").write_bytes(bytes.fromhex(signature.signature))
    verify = ("pkeyutl", "-verify", "-pubin", "-inkey", "public.pem")
    openssl(*verify, "-rawin", "-in", "text", "-sigfile", "made")
