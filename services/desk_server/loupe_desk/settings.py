"""Label Studio's own settings, with workspaces isolated from each other.

Label Studio reads some settings while its own are still loading, and finds those of this module.
Therefore they are set first, and error reports to its vendor are off from the start.
"""
# ruff: noqa: E402, F403 Django's settings are made by importing others in this order

from core.settings.base import *

SENTRY_DSN = ""

from label_studio.core.settings.label_studio import *
from label_studio.core.settings.label_studio import MIDDLEWARE

PROJECT_MIXIN = "loupe_desk.access.WorkspaceProject"
MIDDLEWARE = [*MIDDLEWARE, "loupe_desk.view.LabellingView", "loupe_desk.gate.WorkspaceGate"]
