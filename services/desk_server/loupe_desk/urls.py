"""Label Studio's addresses, and those of invitations."""

from core.middleware import enforce_csrf_checks
from core.urls import urlpatterns as of_label_studio
from django.contrib.auth.views import PasswordResetConfirmView
from django.urls import path

INVITATION = "loupe-invitation"
urlpatterns = [
    path(
        "welcome/<uidb64>/<token>/",
        enforce_csrf_checks(
            PasswordResetConfirmView.as_view(
                template_name="loupe_desk/welcome.html", success_url="/user/login/"
            )
        ),
        name=INVITATION,
    ),
    *of_label_studio,
]
