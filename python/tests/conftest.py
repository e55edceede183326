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
