"""`python -m loupe.services.environments` installs all environments and prints their paths."""

import sys

from loupe.schemas.errors import LoupeError
from loupe.services.environments import ENVIRONMENT_NAMES, ensure_environment, environments_root

try:
    for name in ENVIRONMENT_NAMES:
        print(ensure_environment(name, environments_root()))  # noqa: T201 - a command's output
except LoupeError as error:
    sys.exit(str(error))
