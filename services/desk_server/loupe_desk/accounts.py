"""Create and change workspaces: `python -m loupe_desk.accounts`, one request and one response.

The request is a JSON object on standard input, the response one on standard output, so that secrets
stay in pipes, and do not appear in command lines and logs. Other output of Django and Label Studio
goes to standard error.

A workspace is an organization with two members: a service account, which owns it and has a token
but no password, and a person, who has a password. Members are identified by their e-mail addresses.
"""

import json
import secrets
import sys
from collections.abc import Callable
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

Record = dict[str, Any]


def make(people: list[Record]) -> list[Record]:
    """Create or repair the workspaces of `people`; all earlier tokens of both are revoked."""
    from django.db import transaction

    with transaction.atomic():
        return [_make_workspace(person) for person in people]


def set_active(people: list[Record]) -> list[Record]:
    """Enable or disable the login of `people`; their answers and accounts are kept."""
    from users.models import User

    users = [User.objects.get(email=person["email"]) for person in people]
    for user, person in zip(users, people, strict=True):
        user.is_active = bool(person["active"])
        user.save()
    return [_described(user) for user in users]


def invite(people: list[Record]) -> list[Record]:
    """Return the path of a link with which each of `people` sets a password; it works once."""
    from django.contrib.auth.tokens import default_token_generator
    from django.urls import reverse
    from django.utils.encoding import force_bytes
    from django.utils.http import urlsafe_base64_encode
    from users.models import User

    from loupe_desk.urls import INVITATION

    links = []
    for person in people:
        user = User.objects.get(email=person["email"])
        # Another password ends earlier links, and all sessions.
        user.set_password(secrets.token_urlsafe(24))
        user.save()
        names = (
            urlsafe_base64_encode(force_bytes(user.pk)),
            default_token_generator.make_token(user),
        )
        links.append({"path": reverse(INVITATION, args=names)})
    return links


COMMANDS: dict[str, Callable[[list[Record]], list[Record]]] = {
    "make": make,
    "set_active": set_active,
    "invite": invite,
}


def _make_workspace(person: Record) -> Record:
    from organizations.models import Organization

    service = _ensure_user(person["service_email"], person["name"], None)
    organization = service.own_organization or Organization.create_organization(
        created_by=service, title=person["name"]
    )
    user = _ensure_user(person["email"], person["name"], person["password"])
    for member in (service, user):
        _revoke_tokens(member)
        _settle(member, organization)
    return {**_described(user), "token": _new_token(service)}


def _ensure_user(email: str, name: str, password: str | None) -> Any:
    """Return the user, created if missing; without a `password`, the user cannot log in."""
    from users.models import User

    user = User.objects.filter(email=email).first() or User(email=email)
    user.username = user.first_name = name
    user.is_active, user.is_staff, user.is_superuser = True, False, False
    if password is None:
        user.set_unusable_password()
    else:
        user.set_password(password)
    user.save()
    return user


def _settle(user: Any, organization: Any) -> None:
    """Make the user a member of this organization only."""
    user.om_through.exclude(organization=organization).delete()
    organization.add_user(user)
    user.active_organization = organization
    user.save(update_fields=["active_organization"])


def _revoke_tokens(user: Any) -> None:
    """End all tokens that the user made; Django itself ends sessions with another password."""
    from rest_framework_simplejwt.token_blacklist.models import BlacklistedToken, OutstandingToken

    for token in OutstandingToken.objects.filter(user=user):
        BlacklistedToken.objects.get_or_create(token=token)
    user.reset_token()


def _new_token(user: Any) -> str:
    from jwt_auth.models import LSAPIToken

    return str(LSAPIToken.for_user(user).get_full_jwt())


def _described(user: Any) -> Record:
    return {
        "user_id": user.pk,
        "email": user.email,
        "organization_id": user.active_organization_id,
        "active": user.is_active,
    }


def main() -> None:
    """Answer one request."""
    request = json.load(sys.stdin)
    with redirect_stdout(sys.stderr):
        import django
        import label_studio

        sys.path.insert(0, str(Path(label_studio.__file__).parent))  # where its modules start
        django.setup()
        answer = COMMANDS[request["command"]](request["people"])
    json.dump(answer, sys.stdout)


if __name__ == "__main__":
    main()
