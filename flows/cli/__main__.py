"""Run the command line as `python -m flows.cli`."""

from flows.cli.main import main

main()
