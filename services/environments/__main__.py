"""`python -m services.environments` installs all environments and prints their paths."""

from services.environments import ENVIRONMENT_NAMES, ensure_environment, environments_root

for name in ENVIRONMENT_NAMES:
    print(ensure_environment(name, environments_root()))  # noqa: T201 - a command's output
