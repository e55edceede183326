"""The exceptions of lastword.

Each class has a second base where Python has one for the case, so `except FileNotFoundError` and
`except lastword.NotFound` both work.
"""


class Error(Exception):
    """The base of the errors of pools. A wrong argument is an error of Python."""

    def __str__(self):
        # `OSError` would put the number before it and the file after it: the message has both.
        message = getattr(self, "strerror", None)
        return message if isinstance(message, str) else super().__str__()


class Conflict(Error):
    """The transaction met another one and had no effect. Run it again; `pool.run` does so."""


class Full(Error, OSError):
    """The heap, or the limit of views, has no room left."""


class TooLarge(Error, ValueError):
    """The transaction writes more than the log, or memory for it, holds."""


class WrongType(Error, TypeError):
    """The map of this name has other types. The message names both."""


class Mismatch(Error, ValueError):
    """The pool has another layout, format, medium or root than the program expects."""


class BadOption(Error, ValueError):
    """An option has a value that no pool can have."""


class NotFound(Error, FileNotFoundError):
    """No pool is there, or no directory for it."""


class Exists(Error, FileExistsError):
    """A file of that name exists."""


class InUse(Error, OSError):
    """Another process has the pool open, or another thread still uses it."""


class IOFailure(Error, OSError):
    """The system refused a call."""


class Poisoned(IOFailure):
    """A write has failed, so the pool is closed for writes. Open it again to recover."""


class FileLost(IOFailure):
    """A file of the open pool was removed, replaced or cut."""


class Damaged(Error, OSError):
    """The pool, a map or a value is damaged."""


class ReadOnly(Error, TypeError):
    """A write in a read-only transaction, in a view, or in a pool opened to be read."""


class Nested(Error, RuntimeError):
    """The thread has an open transaction, inside of which the call is not allowed."""


class WrongThread(Error, RuntimeError):
    """The transaction or iterator belongs to another thread."""


class Ended(Error, RuntimeError):
    """The transaction has not begun, or has ended."""


class Closed(Error, ValueError):
    """The pool or view is closed."""


class Forked(Error, RuntimeError):
    """A forked child used a pool of its parent."""


class HeldUp(Error, TimeoutError):
    """Another transaction does not end."""


class Timeout(Error, TimeoutError):
    """The transaction was not durable in the given time."""


class TooManyThreads(Error, RuntimeError):
    """The design has no room for another worker."""


__all__ = [name for name, value in globals().items() if isinstance(value, type)]
