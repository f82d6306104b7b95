"""Logins over https, with an invitation or the account of a provider: who gets in, and who not."""

import json
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import pytest

from loupe.models.profiles.settings import Settings, load_settings
from loupe.schemas.errors import ConfigurationError, ServiceError
from loupe.services.caddy import NAME as CADDY
from loupe.services.caddy import start_caddy
from loupe.services.label_studio import (
    NAME,
    add_workspaces,
    invitation,
    let_in,
    start_label_studio,
)
from loupe.services.oidc import invite_address, oidc_variables
from loupe.services.process import LOOPBACK, free_port, stop
from loupe.services.public import PublicSite, save_public_site
from tests.annotate.browser import assert_accessible
from tests.services.migrated import migrate_home

ADDRESS = "Ida@Example.org"
PEOPLE: dict[str, dict[str, Any]] = {
    "ida": {"email": ADDRESS, "email_verified": True, "groups": ["labels"]},
    "unverified": {"email": ADDRESS, "email_verified": False, "groups": ["labels"]},
    "elsewhere": {"email": ADDRESS, "email_verified": True, "groups": ["sales"]},
    "stranger": {"email": "eve@example.org", "email_verified": True, "groups": ["labels"]},
    "lead": {"email": "lead@example.org", "email_verified": True, "groups": ["labels"]},
}
SECRET = "the-secret-of-the-client"
PASSWORD = "a-long-password-9x"


@pytest.fixture(scope="module")
def provider() -> Iterator[str]:
    """The address of a provider with the accounts of `PEOPLE`, by their names."""
    port = free_port()
    people = [json.dumps({"sub": name, **claims}) for name, claims in PEOPLE.items()]
    options = [f"--user-claims={one}" for one in people]
    program = (sys.executable, "-m", "oidc_provider_mock", "--port", str(port), *options)
    process = subprocess.Popen(program, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    url = f"http://{LOOPBACK}:{port}"

    def answers() -> bool:
        try:
            return httpx.get(f"{url}/.well-known/openid-configuration").is_success
        except httpx.HTTPError:
            return False

    try:
        while process.poll() is None and not answers():
            time.sleep(0.2)
        yield url
    finally:
        process.terminate()
        process.wait(30)


def settings_with(home: Path, issuer: str) -> Settings:
    return load_settings(
        home=home,
        oidc_issuer=issuer,
        oidc_client_id="loupe",
        oidc_client_secret=SECRET,
        oidc_groups="labels, admins",
        oidc_leads="Lead@example.org",
    )


def test_a_provider_is_asked_where_people_log_in(tmp_path: Path, provider: str) -> None:
    assert oidc_variables(load_settings(home=tmp_path)) == {}
    found = oidc_variables(settings_with(tmp_path, provider))
    assert found["LOUPE_OIDC_TOKEN_ENDPOINT"].startswith(provider)
    assert SECRET not in repr(settings_with(tmp_path, provider))
    with pytest.raises(ConfigurationError, match="OIDC_CLIENT_SECRET"):
        oidc_variables(load_settings(home=tmp_path, oidc_issuer=provider, oidc_client_id="loupe"))
    with pytest.raises(ConfigurationError, match="https"):
        oidc_variables(settings_with(tmp_path, "http://login.example.org"))
    with pytest.raises(ServiceError, match="does not describe an OpenID Connect provider"):
        oidc_variables(settings_with(tmp_path, f"{provider}/nothing"))


class Desk(NamedTuple):
    """A Label Studio over https that asks the provider, and the account of an annotator there."""

    origin: str
    settings: Settings
    account: str


@pytest.fixture(scope="module")
def desk(
    label_studio_environment: Path, provider: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Desk]:
    home = tmp_path_factory.mktemp("desk")
    migrate_home(label_studio_environment, home)
    site = PublicSite(url=f"https://desk.localhost:{free_port()}")
    save_public_site(home, site)
    own = settings_with(home, provider)
    logins = oidc_variables(own)
    service = start_label_studio(home, free_port(), label_studio_environment, logins=logins)
    try:
        assert service.port is not None
        start_caddy(home, site, {"": service.port})
        (workspace,) = add_workspaces(own, ["Ida Invited"])
        account = workspace.credentials.email
        assert account is not None
        yield Desk(site.origin(), own, account)
    finally:
        stop(home, CADDY)
        stop(home, NAME)


@pytest.mark.label_studio
@pytest.mark.browser
def test_an_invited_annotator_sets_a_password_and_logs_in_over_https(
    desk: Desk, browser: Any
) -> None:
    """The link works once, and cookies are sent over https only."""
    link = invitation(desk.settings, desk.account)
    assert link.startswith(f"{desk.origin}/welcome/")
    context = browser.new_context(ignore_https_errors=True)
    page = context.new_page()
    page.goto(link)
    assert desk.account in page.inner_text("main")
    assert_accessible(page)
    for field in ("#id_new_password1", "#id_new_password2"):
        page.fill(field, PASSWORD)
    page.click("button")
    page.get_by_text("Your password is set").wait_for()
    assert_accessible(page)
    page.fill("input[name=email]", desk.account)
    page.fill("input[name=password]", PASSWORD)
    page.press("input[name=password]", "Enter")
    page.wait_for_url(re.compile("/projects/"))
    page.locator(".lsf-empty-projects-page").wait_for()
    assert_accessible(page, ".lsf-empty-projects-page")
    cookies = {one["name"]: one["secure"] for one in context.cookies()}
    assert cookies["sessionid"]
    assert all(cookies.values())
    page.goto(link)
    assert "does not work any more" in page.inner_text("main")
    assert_accessible(page)
    context.close()


@pytest.mark.label_studio
@pytest.mark.browser
def test_only_invited_people_with_a_verified_address_get_in(
    desk: Desk, browser: Any, provider: str
) -> None:
    """Over https; the lead gets the account of the installation, and who left is refused."""

    def logged_in_as(name: str) -> str:
        """Log in at the provider, and return the account here; "" if it is refused."""
        context = browser.new_context(ignore_https_errors=True)
        page = context.new_page()
        page.goto(f"{desk.origin}/user/login/?next=/projects/")
        page.click(f"text=Log in with {LOOPBACK}")
        page.wait_for_url(f"{provider}/**")
        page.fill("input[name=sub]", name)
        page.get_by_role("button", name="Authorize", exact=True).click()
        page.wait_for_url(re.compile(re.escape(desk.origin)))
        if "refused" in page.url:
            assert "ask the lead of your team" in page.inner_text("[role=alert]")
            email = ""
        else:
            assert page.url.startswith(f"{desk.origin}/projects/")
            answer = page.goto(f"{desk.origin}/api/current-user/whoami")
            email = json.loads(answer.text())["email"]
        context.close()
        return str(email)

    home = desk.settings.home
    assert logged_in_as("ida") == ""
    invite_address(home, ADDRESS, desk.account)
    found = {name: logged_in_as(name) for name in PEOPLE}
    assert found == dict.fromkeys(PEOPLE, "") | {"ida": desk.account, "lead": "loupe@localhost"}
    let_in(desk.settings, desk.account, False)
    assert logged_in_as("ida") == ""
    assert SECRET not in (home / "services" / f"{NAME}.log").read_text()
