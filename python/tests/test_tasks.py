"""Transactions and tickets in tasks of asyncio."""

import asyncio
import time

import pytest

import lastword
from lastword import _asyncio


def test_transaction_across_await_excludes_other_tasks(path):
    async def main():
        with lastword.open(path, relaxed=True) as pool:
            map = pool.map("m", key=int, value=int)
            entered, go = asyncio.Event(), asyncio.Event()

            async def holder():
                with pool.transaction():
                    map[1] = 1
                    entered.set()
                    await go.wait()  # wrong, but it must not mix two tasks
                    map[2] = 2

            task = asyncio.ensure_future(holder())
            await entered.wait()
            with pytest.raises(lastword.Nested, match="task"):
                map[3] = 3
            with pytest.raises(lastword.Nested):
                pool.transaction().__enter__()
            go.set()
            await task
            assert dict(map) == {1: 1, 2: 2}

    asyncio.run(main())


def test_ticket_waits_for_the_transaction_of_another_task(path):
    async def main():
        # Without the pool's own pause nothing is durable before a task waits.
        with lastword.open(path, relaxed=True, pause=3600.0) as pool:
            map = pool.map("m", key=int, value=int)
            entered, go = asyncio.Event(), asyncio.Event()
            map[1] = 1
            ticket = pool.ticket

            async def holder():
                with pool.transaction():
                    entered.set()
                    await go.wait()

            async def waiter():
                await ticket

            tasks = [asyncio.ensure_future(holder())]
            await entered.wait()
            tasks.append(asyncio.ensure_future(waiter()))
            await asyncio.sleep(0.02)
            assert not tasks[1].done() and not ticket.is_durable
            go.set()
            await asyncio.wait_for(asyncio.gather(*tasks), 60)
            assert ticket.is_durable
            map[2] = 2
            with pool.transaction():
                with pytest.raises(lastword.Nested):
                    await pool.ticket

    asyncio.run(main())


def test_interrupted_wake_keeps_its_tokens(path):
    class Loop:
        def add_reader(self, *_):
            pass

    def interrupt(token):
        raise KeyboardInterrupt

    with lastword.open(path, relaxed=True, pause=3600.0) as pool:
        hub, map = _asyncio._Hub(Loop()), pool.map("m", key=int, value=int)
        map[1] = 1
        waiting = [pool.ticket.start(hub.wakes, token) for token in (1, 2)]
        assert [one.poll() for one in waiting] == [False, False]
        pool.flush()
        tokens = []
        while len(tokens) < 2:
            tokens.extend(hub.wakes.take())
            time.sleep(0.001)
        hub.wakes.put(tokens)
        hub.poll = interrupt
        with pytest.raises(KeyboardInterrupt):
            hub.wake()
        assert sorted(hub.wakes.take()) == [1, 2]


def test_transaction_of_a_finished_task_is_of_no_other(path):
    async def main():
        with lastword.open(path, relaxed=True) as pool:
            map = pool.map("m", key=int, value=int)
            tx = pool.transaction()

            async def begin():
                tx.__enter__()
                map[1] = 1

            async def change():
                assert not pool.in_transaction
                for call in (lambda: map.update({2: 2}), lambda: tx.__exit__(None, None, None)):
                    with pytest.raises(lastword.Nested, match="task"):
                        call()

            await asyncio.create_task(begin())
            for _ in range(20):  # some have the address of the first one
                await asyncio.create_task(change())
            del tx, begin, change
            assert dict(map) == {}

    asyncio.run(main())


def test_loop_in_a_block_is_outside_of_its_transaction(pool):
    map = pool.map("m", key=int, value=int)

    async def main():
        with pytest.raises(lastword.Nested, match="outside of its tasks"):
            map[1] = 1

    with pool.transaction():
        asyncio.run(main())
        map[2] = 2
    assert dict(map) == {2: 2}
