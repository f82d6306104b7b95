"""Who may touch a project, and what hangs on it: those who work in its organisation."""

from typing import Any

from projects.mixins import ProjectMixin


class WorkspaceProject(ProjectMixin):
    """Label Studio's project, closed to members of other organisations.

    The community edition takes for granted that there is one organisation only, and lets everybody
    in whose membership of it was not revoked.
    """

    def has_permission(self, user: Any) -> bool:
        """Whether the user works in the project's organisation at this moment, as a member."""
        if self.organization_id != user.active_organization_id:
            return False
        return bool(super().has_permission(user) and self.organization.has_permission(user))
