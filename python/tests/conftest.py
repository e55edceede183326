"""Pools for the tests, each in a directory of its own."""

import pytest

import lastword


@pytest.fixture
def path(tmp_path):
    return tmp_path / "test.pool"


@pytest.fixture
def pool(path):
    """A pool that does not wait for the disk."""
    with lastword.open(path, relaxed=True) as pool:
        yield pool


def pytest_terminal_summary(terminalreporter):
    """Prints the skipped tests in the form that `.ci/run` collects."""
    for report in terminalreporter.stats.get("skipped", ()):
        reason = report.longrepr[2].replace("Skipped: ", "", 1)
        terminalreporter.write_line(f"skipped: {report.nodeid}: {reason}")
