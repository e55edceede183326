"""`await ticket`, for event loops of asyncio that watch descriptors."""

import asyncio
import weakref

from ._lastword import Wakes

_hubs = weakref.WeakKeyDictionary()

# Seconds until the next poll, while another task of the loop has an open transaction.
_PAUSE = 0.002


class _Hub:
    """The tickets that tasks of one event loop wait for."""

    def __init__(self, loop):
        self.wakes, self.waiting, self.last = Wakes(), {}, 0
        loop.add_reader(self.wakes.fileno(), self.wake)

    def wake(self):
        tokens = self.wakes.take()
        try:
            while tokens:
                self.poll(tokens[-1])
                tokens.pop()
        finally:
            # After a `KeyboardInterrupt`, which leaves the others to the next wake.
            self.wakes.put(tokens)

    def poll(self, token):
        # A task that was cancelled meanwhile has gone.
        waiting, future = self.waiting.get(token, (None, None))
        if waiting is None or future.done():
            return
        try:
            durable = waiting.poll()
        except Exception as error:
            future.set_exception(error)
            return
        if durable:
            future.set_result(None)
        elif durable is None:
            asyncio.get_running_loop().call_later(_PAUSE, self.poll, token)


async def wait(ticket):
    """Waits until a ticket's transaction is durable."""
    if ticket.is_durable:
        return
    loop = asyncio.get_running_loop()
    hub = _hubs.get(loop)
    if hub is None:
        hub = _hubs[loop] = _Hub(loop)
    hub.last += 1
    token = hub.last
    waiting, future = ticket.start(hub.wakes, token), loop.create_future()
    hub.waiting[token] = waiting, future
    try:
        hub.poll(token)
        await future
    finally:
        del hub.waiting[token]
        waiting.cancel()
