"""Label Studio's own settings, with workspaces isolated from each other.

Label Studio reads some settings while its own are still loading, and finds those of this module.
Therefore they are set first, and error reports to its vendor are off from the start.
"""
# ruff: noqa: E402, F403 Django's settings are made by importing others in this order

import gc
import logging
import os
import warnings
from pathlib import Path
from urllib.parse import urlsplit

# Imports and migrations create hundreds of thousands of objects and little garbage; looking for it
# takes a sixth of their time.
gc.set_threshold(100_000, 50, 100)

from core.settings.base import *

SENTRY_DSN = ""

from label_studio.core.settings.label_studio import *
from label_studio.core.settings.label_studio import (
    AUTHENTICATION_BACKENDS,
    CSRF_TRUSTED_ORIGINS,
    DATABASES,
    LOGGING,
    MIDDLEWARE,
    TEMPLATES,
)

PROJECT_MIXIN = "loupe_desk.access.WorkspaceProject"
MIDDLEWARE = [
    "loupe_desk.secure.SecureCookies",
    *MIDDLEWARE,
    "loupe_desk.view.LabellingView",
    "loupe_desk.again.AnswerAgain",
    "loupe_desk.webhook.AnswerWebhook",
    "loupe_desk.gate.WorkspaceGate",
    "loupe_desk.holding.AnswerHolding",
    "loupe_desk.taking.TaskTaking",
]

# Pages through which people set their passwords, and what they look like.
ROOT_URLCONF = "loupe_desk.urls"
TEMPLATES[0]["DIRS"] = [*TEMPLATES[0]["DIRS"], str(Path(__file__).parent / "templates")]
PASSWORD_RESET_TIMEOUT = 7 * 24 * 3600

if ORIGIN := os.environ.get("LOUPE_PUBLIC_ORIGIN"):
    # Caddy, on this machine, says by which scheme and from where a request came.
    SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https")
    CSRF_TRUSTED_ORIGINS = [*CSRF_TRUSTED_ORIGINS, ORIGIN]

if ISSUER := os.environ.get("LOUPE_OIDC_ISSUER"):
    AUTHENTICATION_BACKENDS = [*AUTHENTICATION_BACKENDS, "loupe_desk.oidc.InvitedBackend"]
    OIDC_OP_AUTHORIZATION_ENDPOINT = os.environ["LOUPE_OIDC_AUTHORIZATION_ENDPOINT"]
    OIDC_OP_TOKEN_ENDPOINT = os.environ["LOUPE_OIDC_TOKEN_ENDPOINT"]
    OIDC_OP_USER_ENDPOINT = os.environ["LOUPE_OIDC_USERINFO_ENDPOINT"]
    OIDC_OP_JWKS_ENDPOINT = os.environ["LOUPE_OIDC_JWKS_URI"]
    OIDC_RP_CLIENT_ID = os.environ["LOUPE_OIDC_CLIENT_ID"]
    OIDC_RP_CLIENT_SECRET = os.environ["LOUPE_OIDC_CLIENT_SECRET"]
    OIDC_RP_SIGN_ALGO = "RS256"
    OIDC_RP_SCOPES = "openid email profile"
    OIDC_USE_PKCE = True
    OIDC_CREATE_USER = False
    OIDC_TIMEOUT = 20
    LOUPE_OIDC_HOST = urlsplit(ISSUER).hostname

# Label Studio logs each request twice, a refusal also with a traceback, and a warning whenever we
# ask for new answers: in three months, a team at its pages would fill a disk. A refusal or fault is
# still logged by Django, once.
warnings.filterwarnings("ignore", "DateTimeField .* received a naive datetime", RuntimeWarning)
LOGGING["loggers"]["django"]["propagate"] = False
LOGGING["loggers"]["django.server"] = {"level": "CRITICAL"}
logging.getLogger("core.utils.common").addFilter(
    lambda record: not getattr(record, "sentry_skip", False)
)

if DATABASES["default"]["ENGINE"].endswith("sqlite3"):
    # As in our own store: an answer is stored with several commits, each of which would otherwise
    # wait for the disk, and block readers.
    DATABASES["default"]["OPTIONS"] = {
        "init_command": "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL"
    }
