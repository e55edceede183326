"""The classes of pools and views."""

import functools
import inspect
from collections import namedtuple

from . import _lastword
from ._map import Map, OrderedMap


def _done(value):
    """Returns the value of a body. A coroutine or generator would miss its transaction."""
    is_later = inspect.isawaitable(value) and not isinstance(value, _lastword.Ticket)
    if is_later or inspect.isgenerator(value) or inspect.isasyncgen(value):
        if inspect.iscoroutine(value):
            value.close()  # without a warning that nothing awaits it
        kind = type(value).__name__
        raise TypeError(f"a body has returned a {kind}, which would run after its transaction")
    return value


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

    def run(self, body, /, *args, read_only=False, **kwargs):
        """Calls `body(tx, ...)` in a transaction, again after each conflict.

        The body changes nothing but the pool, since it may run several times. An exception rolls
        the transaction back, and leaves this call.
        """
        tx = self.transaction(read_only=read_only)
        was_full = False
        while True:
            is_begun = False
            try:
                with tx:
                    is_begun = True
                    value = _done(body(tx, *args, **kwargs))
            except Exception:
                # Of any class: the body may have replaced `Conflict` by its own exception.
                if not is_begun or tx.state_name not in ("conflict", "full"):
                    raise
                if tx.state_name == "full":
                    # The next attempt begins by reclaiming memory that other threads own.
                    if was_full:
                        raise
                    was_full = True
            else:
                return Committed(value, tx.ticket)

    def transactional(self, function=None, /, *, read_only=False):
        """Decorates a function that runs in a transaction, again after each conflict.

        A call inside of a transaction of this pool becomes part of it.
        """
        if function is None:
            return functools.partial(self.transactional, read_only=read_only)
        if (
            inspect.iscoroutinefunction(function)
            or inspect.isgeneratorfunction(function)
            or inspect.isasyncgenfunction(function)
        ):
            raise TypeError("a transaction must not wait, so its body is a plain function")

        @functools.wraps(function)
        def call(*args, **kwargs):
            if self.in_transaction:
                return _done(function(*args, **kwargs))
            return self.run(lambda _: function(*args, **kwargs), read_only=read_only).value

        return call

    def view(self):
        """Returns the pool as of one transaction, while others go on."""
        return View(self)


class View(_Opens, _lastword.View):
    """A pool as of one transaction. `view[map]` is a map of that state."""

    __slots__ = ()

