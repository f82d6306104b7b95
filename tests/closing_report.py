"""The end of a test run lists skipped tests and the reasons; in CI, skipped tests are a failure."""

import shutil
from collections import defaultdict
from collections.abc import Iterator

import pytest

from tests.requirements import REQUIRE_ALL

_MAY_BE_SKIPPED = ("gpu", "weights")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip tests that need a GPU on machines without one."""
    if shutil.which("nvidia-smi") is None:
        for item in items:
            if "gpu" in item.keywords:
                item.add_marker(pytest.mark.skip(reason="no NVIDIA GPU on this machine"))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """List the skipped tests by reason."""
    by_reason: dict[str, list[str]] = defaultdict(list)
    for report in _skipped(terminalreporter):
        by_reason[_reason(report)].append(report.nodeid)
    terminalreporter.section("what this machine could not run")
    if not by_reason:
        terminalreporter.line("nothing: every test ran")
    for reason, tests in sorted(by_reason.items()):
        terminalreporter.line(f"{len(tests)} × {reason}: {tests[0]}{' …' if tests[1:] else ''}")


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """Fail a run that skipped tests that must run."""
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if not REQUIRE_ALL or not isinstance(reporter, pytest.TerminalReporter):
        return
    forbidden = [
        report
        for report in _skipped(reporter)
        if not any(marker in report.keywords for marker in _MAY_BE_SKIPPED)
    ]
    if forbidden and session.exitstatus == pytest.ExitCode.OK:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def _skipped(reporter: pytest.TerminalReporter) -> Iterator[pytest.TestReport]:
    for report in reporter.stats.get("skipped", []):
        if isinstance(report, pytest.TestReport) and not hasattr(report, "wasxfail"):
            yield report


def _reason(report: pytest.TestReport) -> str:
    if isinstance(report.longrepr, tuple):
        return str(report.longrepr[2]).removeprefix("Skipped: ")
    return str(report.longrepr)
