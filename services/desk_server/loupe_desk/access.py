"""Access to a project and its content: only for members of its organization."""

from typing import Any

from projects.mixins import ProjectMixin


class WorkspaceProject(ProjectMixin):
    """Label Studio's project, closed to members of other organizations.

    The community edition assumes that there is only one organization, and admits everyone whose
    membership was not revoked.
    """

    def has_permission(self, user: Any) -> bool:
        """Return True if the user currently works in the project's organization, as a member."""
        if self.organization_id != user.active_organization_id:
            return False
        return bool(super().has_permission(user) and self.organization.has_permission(user))
