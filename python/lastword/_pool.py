"""The classes of pools and views."""

import atexit
import functools
import inspect
import weakref
from collections import namedtuple

from . import _lastword
from . import errors as _errors
from ._map import Map, OrderedMap


_open = weakref.WeakSet()


@atexit.register
def _close_all():
    """Makes relaxed commits durable when a program ends without a close."""
    for pool in list(_open):
        try:
            pool.close()
        except _errors.Error:
            pass  # a forked child, a transaction that is open, or a disk that has failed


class Committed(namedtuple("Committed", ["value", "ticket"])):
    """The result of `pool.run`: the body's value, and the ticket of the transaction."""

    __slots__ = ()


class _Opens:
    """Opens maps by name."""

    __slots__ = ()

    def map(self, name, *, key=str, value=bytes):
        """Opens the map of this name, or creates it."""
        return Map(self, name, key, value)

    def ordered_map(self, name, *, key=str, value=bytes):
        """Opens the ordered map of this name, or creates it."""
        return OrderedMap(self, name, key, value)


class Pool(_Opens, _lastword.Pool):
    """A pool that this process has opened: see `lastword.open`."""

    __slots__ = ()

    def __init__(self, path, **options):
        _open.add(self)

    def run(self, body, /, *args, read_only=False, **kwargs):
        """Calls `body(tx, ...)` in a transaction, again after each conflict.

        The body changes nothing but the pool, since it may run several times. An exception rolls
        the transaction back, and leaves this call.
        """
        tx = self.transaction(read_only=read_only)
        was_full = False
        while True:
            try:
                with tx:
                    value = body(tx, *args, **kwargs)
                return Committed(value, tx.ticket)
            except _errors.Conflict:
                if tx.state_name != "conflict":
                    raise
            except _errors.Full:
                # The next attempt begins by reclaiming memory that other threads own.
                if tx.state_name != "full" or was_full:
                    raise
                was_full = True

    def transactional(self, function=None, /, *, read_only=False):
        """Decorates a function that runs in a transaction, again after each conflict.

        A call inside of a transaction of this pool becomes part of it.
        """
        if function is None:
            return functools.partial(self.transactional, read_only=read_only)
        if inspect.iscoroutinefunction(function) or inspect.isgeneratorfunction(function):
            raise TypeError("a transaction must not wait, so its body is a plain function")

        @functools.wraps(function)
        def call(*args, **kwargs):
            if self.in_transaction:
                return function(*args, **kwargs)
            return self.run(lambda _: function(*args, **kwargs), read_only=read_only).value

        return call

    def view(self):
        """Returns the pool as of one transaction, while others go on."""
        return View(self)


class View(_Opens, _lastword.View):
    """A pool as of one transaction. `view[map]` is a map as of then."""

    __slots__ = ()

