"""Logins with the accounts of an OpenID Connect provider: what Label Studio must know of it."""

import json
from pathlib import Path
from urllib.parse import urlsplit

import httpx
from pydantic import TypeAdapter, ValidationError

from loupe.models.profiles.settings import PREFIX, Settings
from loupe.schemas.errors import ConfigurationError, ServiceError
from loupe.schemas.processes import write_atomically
from loupe.services.credentials import locked, services_folder
from loupe.services.process import LOOPBACK

_DISCOVERY = "/.well-known/openid-configuration"
_ENDPOINTS = ("authorization_endpoint", "token_endpoint", "userinfo_endpoint", "jwks_uri")
_SECONDS = 20.0
_Addresses = TypeAdapter(dict[str, str])


def oidc_variables(settings: Settings) -> dict[str, str]:
    """Return the environment variables of Label Studio, with secrets; none without a provider.

    Raises:
        ConfigurationError: a setting is missing, or the address of the provider is not https.
        ServiceError: the provider does not say where people log in.
    """
    if not settings.oidc_issuer:
        return {}
    issuer, secret = settings.oidc_issuer, settings.oidc_client_secret
    if not settings.oidc_client_id or secret is None:
        raise ConfigurationError(
            f"{PREFIX}OIDC_ISSUER needs {PREFIX}OIDC_CLIENT_ID and {PREFIX}OIDC_CLIENT_SECRET, "
            "which the provider gave to this installation (docs/team.md)"
        )
    parts = urlsplit(issuer)
    if parts.scheme != "https" and parts.hostname not in (LOOPBACK, "localhost"):
        raise ConfigurationError(f"{PREFIX}OIDC_ISSUER must start with https://; got {issuer!r}")
    found = _discovered(issuer)
    return {
        **{f"LOUPE_OIDC_{name.upper()}": found[name] for name in _ENDPOINTS},
        "LOUPE_OIDC_ISSUER": found["issuer"],
        "LOUPE_OIDC_CLIENT_ID": settings.oidc_client_id,
        "LOUPE_OIDC_CLIENT_SECRET": secret.get_secret_value(),
        "LOUPE_OIDC_GROUPS": settings.oidc_groups.replace(",", " "),
        "LOUPE_OIDC_LEADS": settings.oidc_leads.replace(",", " "),
        "LOUPE_OIDC_ADDRESSES": str(_path(settings.home)),
    }


def invite_address(home: Path, address: str, account: str) -> None:
    """Let the provider's account with this address log in to an account of Label Studio.

    It replaces another address of that account.
    """
    path = _path(home)
    services_folder(home)
    with locked(path.with_suffix(".lock")):
        others = {one: of for one, of in _addresses(path).items() if of != account}
        kept = {**others, address.casefold(): account}
        write_atomically(path, json.dumps(kept, indent=1).encode())


def _addresses(path: Path) -> dict[str, str]:
    try:
        return _Addresses.validate_json(path.read_bytes())
    except FileNotFoundError:
        return {}
    except ValidationError as error:
        raise ServiceError(
            f"{path} is damaged; remove it, and invite people with --email again"
        ) from error


def _path(home: Path) -> Path:
    return home / "services" / "addresses.json"


def _discovered(issuer: str) -> dict[str, str]:
    """Return the addresses of a provider, which it publishes itself."""
    address = f"{issuer.rstrip('/')}{_DISCOVERY}"
    try:
        document = httpx.get(address, timeout=_SECONDS).raise_for_status().json()
        found = {name: str(document[name]) for name in (*_ENDPOINTS, "issuer")}
    except (httpx.HTTPError, ValueError, KeyError, TypeError) as error:
        raise ServiceError(
            f"{address} does not describe an OpenID Connect provider ({error!r}); check "
            f"{PREFIX}OIDC_ISSUER"
        ) from error
    if found["issuer"].rstrip("/") != issuer.rstrip("/"):
        raise ServiceError(f"{address} describes another provider, {found['issuer']!r}")
    return found
