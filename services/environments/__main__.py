"""`python -m services.environments NAME …` installs environments and prints their paths."""

import argparse
import sys
import time

from schemas.errors import LoupeError
from services.environments import ENVIRONMENT_NAMES, ensure_environment, environments_root


def main() -> int:
    """Install the environments named on the command line, and return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m services.environments", description=__doc__)
    parser.add_argument("names", nargs="+", choices=ENVIRONMENT_NAMES, metavar="NAME")
    for name in parser.parse_args().names:
        start = time.monotonic()
        try:
            folder = ensure_environment(name, environments_root())
        except LoupeError as error:
            print(error, file=sys.stderr)  # noqa: T201 - a command's output
            return error.exit_code
        print(f"{folder} ({time.monotonic() - start:.1f} s)")  # noqa: T201 - a command's output
    return 0


if __name__ == "__main__":
    sys.exit(main())
