"""`await ticket`, for event loops of asyncio that watch descriptors."""

import asyncio
import weakref

from ._lastword import Wakes

_hubs = weakref.WeakKeyDictionary()


class _Hub:
    """The tickets that tasks of one event loop wait for."""

    def __init__(self, loop):
        self.wakes, self.waiting, self.last = Wakes(), {}, 0
        loop.add_reader(self.wakes.fileno(), self.wake)

    def wake(self):
        for token in self.wakes.take():
            # A task that was cancelled meanwhile has gone.
            waiting, future = self.waiting.get(token, (None, None))
            if waiting is None or future.done():
                continue
            try:
                if waiting.poll():
                    future.set_result(None)
            except Exception as error:
                future.set_exception(error)


async def wait(ticket):
    """Waits until a ticket's transaction is durable."""
    loop = asyncio.get_running_loop()
    hub = _hubs.get(loop)
    if hub is None:
        hub = _hubs[loop] = _Hub(loop)
    hub.last += 1
    token = hub.last
    # A wake before the next line finds the task, since this thread looks for it later.
    waiting = ticket.start(hub.wakes, token)
    if waiting is None:
        return
    future = loop.create_future()
    hub.waiting[token] = waiting, future
    try:
        await future
    finally:
        del hub.waiting[token]
        waiting.cancel()
