"""Label Studio's addresses, and those of invitations, the lead's page, and questions."""

import os

from core.middleware import enforce_csrf_checks
from core.urls import urlpatterns as of_label_studio
from django.contrib.auth.views import PasswordResetConfirmView
from django.urls import path

from loupe_desk import lead

INVITATION = "loupe-invitation"
urlpatterns = [
    path(
        "welcome/<uidb64>/<token>/",
        enforce_csrf_checks(
            PasswordResetConfirmView.as_view(
                template_name="loupe_desk/welcome.html", success_url="/user/login/?welcome"
            )
        ),
        name=INVITATION,
    ),
    path("lead/", lead.page, name="loupe-lead"),
    path("lead/lead.js", lead.script, name="loupe-lead-script"),
    path("lead/now", lead.now, name="loupe-lead-now"),
    path("lead/items", lead.items, name="loupe-lead-items"),
    path("lead/press", enforce_csrf_checks(lead.press), name="loupe-lead-press"),
    path("ask/", lead.inbox, name="loupe-inbox"),
    path("ask/<int:pk>/", lead.thread, name="loupe-thread"),
    *of_label_studio,
]

if "LOUPE_OIDC_ISSUER" in os.environ:
    from mozilla_django_oidc.views import OIDCAuthenticationRequestView

    from loupe_desk.oidc import Callback

    # the library asks for these names
    urlpatterns += [
        path(
            "oidc/authenticate/",
            OIDCAuthenticationRequestView.as_view(),
            name="oidc_authentication_init",
        ),
        path("oidc/callback/", Callback.as_view(), name="oidc_authentication_callback"),
    ]
