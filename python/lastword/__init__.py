"""Durable memory transactions: maps in a file that survive a kill -9 and a power failure.

    import lastword

    with lastword.open("bank.pool") as pool:
        accounts = pool.map("accounts", key=str, value=int)
        accounts.update(ann=100, bob=0)
        with pool.transaction():
            accounts["ann"] -= 30
            accounts["bob"] += 30
        # durable
"""

import atexit
import os

from ._lastword import Ticket, Transaction, __version__, after_fork, close_all
from ._map import Map, OrderedMap, Range
from ._pool import Committed, Pool, View
from .codecs import Codec
from .errors import *  # noqa: F403
from . import codecs, errors

__all__ = [
    "Codec",
    "Committed",
    "Map",
    "OrderedMap",
    "Pool",
    "Range",
    "Ticket",
    "Transaction",
    "View",
    "codecs",
    "errors",
    "open",
    *errors.__all__,
]

os.register_at_fork(after_in_child=after_fork)
atexit.register(close_all)


def open(path, *, read_only=False, **options):
    """Opens the pool at a path, or creates it.

    The options are in docs/guide/python.md. With `read_only=True` the pool is not changed, and the
    result is a `View`.
    """
    return View(path, **options) if read_only else Pool(path, **options)
