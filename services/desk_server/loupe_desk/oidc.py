"""Log in with the accounts of an OpenID Connect provider, for people who are invited.

An account of the provider belongs to a person if its verified address is the one that the person
was invited with. No account is created here.
"""

import json
import logging
import os
from pathlib import Path
from typing import Any

import jwt
import requests
from django.conf import settings
from django.core.exceptions import SuspiciousOperation
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from mozilla_django_oidc.auth import OIDCAuthenticationBackend
from mozilla_django_oidc.views import OIDCAuthenticationCallbackView
from organizations.models import Organization
from users.functions.common import login

_ISSUER = os.environ["LOUPE_OIDC_ISSUER"]
_GROUPS = frozenset(os.environ["LOUPE_OIDC_GROUPS"].split())
_LEADS = frozenset(os.environ["LOUPE_OIDC_LEADS"].casefold().split())
_LEADS_ACCOUNT = os.environ["LABEL_STUDIO_USERNAME"]
_ADDRESSES = Path(os.environ["LOUPE_OIDC_ADDRESSES"])
_log = logging.getLogger(__name__)


class InvitedBackend(OIDCAuthenticationBackend):
    """Finds the account of the person that an ID token is about."""

    def retrieve_matching_jwk(self, token: str) -> Any:
        """Return the key that signed a token, which may omit its name if there is only one."""
        answer = requests.get(self.OIDC_OP_JWKS_ENDPOINT, timeout=settings.OIDC_TIMEOUT)
        answer.raise_for_status()
        name = jwt.get_unverified_header(token).get("kid")
        keys = [one for one in answer.json()["keys"] if name in (None, one.get("kid"))]
        if len(keys) != 1:
            raise SuspiciousOperation("the provider has no key of that name, or several")
        return jwt.PyJWK(keys[0])

    def get_userinfo(self, access_token: str, id_token: str, payload: dict[str, Any]) -> Any:
        """Return what the provider says about the person.

        The library checks the signature, the nonce and the expiry of the token. This checks its
        issuer and its audience, and that both answers are about the same person.
        """
        audience = payload.get("aud")
        audience = audience if isinstance(audience, list) else [audience]
        if payload.get("iss") != _ISSUER or self.OIDC_RP_CLIENT_ID not in audience:
            raise SuspiciousOperation("the ID token was made by another provider, or for another")
        claims = super().get_userinfo(access_token, id_token, payload)
        if claims.get("sub") != payload.get("sub"):
            raise SuspiciousOperation("the provider describes another person than the ID token")
        return {**payload, **claims}

    def verify_claims(self, claims: dict[str, Any]) -> bool:
        """Tell whether the address is verified, and the person is in one of the groups."""
        groups = claims.get("groups") or []
        is_member = not _GROUPS or not _GROUPS.isdisjoint(groups)
        return bool(claims.get("email")) and claims.get("email_verified") is True and is_member

    def filter_users_by_claims(self, claims: dict[str, Any]) -> Any:
        """Return the account that the address was invited to."""
        address = str(claims["email"]).casefold()
        account = _LEADS_ACCOUNT if address in _LEADS else _invited().get(address)
        return self.UserModel.objects.filter(email=account, is_active=True)


class Callback(OIDCAuthenticationCallbackView):
    """Where the provider sends people back."""

    failure_url = "/user/login/?refused"

    def get(self, request: HttpRequest) -> HttpResponse:
        """Log a person in, or return to the login page; the log says why."""
        try:
            return super().get(request)
        except (SuspiciousOperation, requests.RequestException, jwt.PyJWTError) as error:
            _log.warning("a login at the provider failed: %s", type(error).__name__)
            return self.login_failure()

    def login_success(self) -> HttpResponse:
        """Log in as Label Studio's own page does, which it expects later."""
        login(self.request, self.user)
        self.user.active_organization = Organization.find_by_user(self.user)
        self.user.save(update_fields=["active_organization"])
        return HttpResponseRedirect(self.success_url)


def _invited() -> dict[str, str]:
    """Return the accounts by the addresses that people were invited with."""
    try:
        invited: dict[str, str] = json.loads(_ADDRESSES.read_bytes())
    except FileNotFoundError:
        return {}
    return invited
