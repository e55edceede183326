"""Transactions: commit, roll-back, conflicts, threads and wrong uses."""

import gc
import threading

import pytest

import lastword


@pytest.fixture
def map(pool):
    return pool.map("m", key=str, value=int)


def in_thread(work):
    """Runs work in another thread, and returns its value or raises its error."""
    result = []

    def run():
        try:
            result.append((work(), None))
        except BaseException as error:
            result.append((None, error))

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    value, error = result[0]
    if error is not None:
        raise error
    return value


def test_exception_rolls_back(pool, map):
    map["a"] = 1
    with pytest.raises(ZeroDivisionError):
        with pool.transaction() as tx:
            map["a"] = 2
            map["b"] = 1 // 0
    assert dict(map) == {"a": 1}
    assert tx.state_name == "rolled back"
    with pytest.raises(lastword.Ended, match="no ticket"):
        tx.ticket


def test_rollback_ends_the_block_quietly(pool, map):
    with pool.transaction() as tx:
        map["a"] = 1
        tx.rollback()
        with pytest.raises(lastword.Ended):
            map["a"]
    assert "a" not in map


def test_conflict_leaves_no_effect_and_is_raised(pool, map):
    map["a"] = 1
    with pytest.raises(lastword.Conflict):
        with pool.transaction() as tx:
            before = map["a"]
            in_thread(lambda: map.update(a=10))
            map["a"] = before + 1
    assert map["a"] == 10 and tx.state_name == "conflict"


def test_swallowed_conflict_is_raised_at_the_end(pool, map):
    map.update(a=1, b=1)
    with pytest.raises(lastword.Conflict):
        with pool.transaction():
            assert map["a"] == 1
            in_thread(lambda: map.update(a=10, b=10))
            try:
                map["b"] += 1
            except lastword.Conflict:
                pass
            # It must not go on as a transaction of its own.
            with pytest.raises(lastword.Ended):
                map["c"] = 1
            with pytest.raises(lastword.Nested):
                pool.run(lambda tx: map.update(c=1))
    assert dict(map) == {"a": 10, "b": 10}


def test_run_repeats_after_a_conflict(pool, map):
    map["a"] = 0
    runs = []

    def body(tx, by):
        runs.append(tx.state_name)
        before = map["a"]
        if len(runs) < 4:
            in_thread(lambda: map.update(a=map["a"] + 100))
        tx[map]["a"] = before + by
        return before

    done = pool.run(body, by=1)
    assert (done.value, map["a"], len(runs)) == (300, 301, 4)
    done.ticket.wait()
    assert done.ticket.is_durable


def test_transactional_functions_nest(pool, map):
    calls = []

    @pool.transactional
    def move(by):
        map["a"] = map.get("a", 0) - by
        add("b", by)

    @pool.transactional
    def add(key, by):
        calls.append(pool.in_transaction)
        map[key] = map.get(key, 0) + by
        if by > 100:
            raise ValueError(by)

    move(5)
    with pytest.raises(ValueError):
        move(500)
    add("b", 1)
    assert dict(map) == {"a": -5, "b": 6} and calls == [True] * 3


def test_bodies_that_run_later_are_refused(pool, map):
    async def coroutine():
        pass

    def generator():
        yield

    async def async_generator():
        yield

    for wrong in (coroutine, generator, async_generator):
        with pytest.raises(TypeError, match="plain function"):
            pool.transactional(wrong)
        for call in (pool.transactional(lambda: wrong()), lambda: pool.run(lambda tx: wrong())):
            with pytest.raises(TypeError, match="after its transaction"):
                call()
    ticket = pool.ticket
    assert pool.run(lambda tx: ticket).value is ticket


def test_run_repeats_a_body_that_replaces_the_conflict(pool, map):
    map.update(a=0, b=0)
    runs = []

    def body(tx):
        runs.append(map["a"])
        if len(runs) == 1:
            in_thread(lambda: map.update(a=1, b=1))
        try:
            map["b"] += 1
        except lastword.Conflict as error:
            raise ValueError("of the program") from error

    pool.run(body)
    assert runs == [0, 1] and map["b"] == 2
    with pytest.raises(lastword.Nested):
        with pool.transaction():
            pool.run(body)


def test_read_only_transaction_writes_nothing(pool, map):
    map["a"] = 1
    with pytest.raises(lastword.ReadOnly):
        with pool.transaction(read_only=True):
            assert map["a"] == 1
            map["a"] = 2
    with pool.transaction(read_only=True) as tx:
        assert map["a"] == 1
    tx.ticket.wait()
    assert pool.transactional(read_only=True)(lambda: map["a"])() == 1


def test_transaction_runs_once(pool, map):
    tx = pool.transaction()
    with pytest.raises(lastword.Ended):
        tx[map]["a"]
    with tx:
        tx[map]["a"] = 1
    with pytest.raises(lastword.Ended):
        tx[map]["a"]
    with pytest.raises(lastword.Ended):
        with tx:
            pass


def test_transactions_do_not_nest(pool, map, tmp_path):
    with lastword.open(tmp_path / "other.pool", relaxed=True) as other:
        far = other.map("m")
        with pool.transaction():
            map["a"] = 1
            for wrong in (
                lambda: pool.transaction().__enter__(),
                lambda: far.get("a"),
                lambda: pool.close(),
                lambda: pool.flush(),
            ):
                with pytest.raises(lastword.Nested):
                    wrong()
            assert pool.in_transaction and not other.in_transaction
            with pytest.raises(lastword.Nested, match="open maps before the block"):
                pool.map("new")
        assert dict(map) == {"a": 1}


def test_transaction_belongs_to_its_thread(pool, map):
    other = pool.map("other", key=str, value=int)
    map["a"] = 0
    other.update({str(n): 0 for n in range(200)})
    with pool.transaction() as tx:
        map["a"] = 1
        in_thread(lambda: other.update({"199": 1}))  # a transaction of its own
        with pytest.raises(lastword.WrongThread):
            in_thread(lambda: tx[map]["a"])
        with pytest.raises(lastword.WrongThread):
            in_thread(lambda: tx.__exit__(None, None, None))
        assert map["a"] == 1
    assert map["a"] == 1 and other["199"] == 1


def test_forgotten_transaction_is_rolled_back(pool, map):
    tx = pool.transaction()
    tx.__enter__()
    map["a"] = 1
    del tx
    assert "a" not in map and not pool.in_transaction

    def leave_open():
        tx = pool.transaction()
        tx.__enter__()
        map["b"] = 1
        return tx

    kept = in_thread(leave_open)  # the end of its thread rolls it back
    map["b"] = 2
    assert dict(map) == {"b": 2}
    with pytest.raises(lastword.WrongThread):
        kept.rollback()


def test_closed_pool_refuses_calls(path):
    pool = lastword.open(path, relaxed=True)
    map = pool.map("m", key=str, value=int)
    view = pool.view()
    with pool.transaction() as tx:
        map["a"] = 1
    ticket = tx.ticket
    pool.close()
    pool.close()
    assert pool.closed
    for call in (lambda: map["a"], lambda: pool.transaction().__enter__(), pool.metrics, pool.view):
        with pytest.raises(lastword.Closed):
            call()
    with pytest.raises(ValueError):
        view[map]["a"]
    ticket.wait()
    assert ticket.is_durable
    with lastword.open(path) as again:
        assert again.map("m", key=str, value=int)["a"] == 1


def test_pool_in_use_closes_later(path):
    pool = lastword.open(path, relaxed=True, patience=0.05)
    map = pool.map("m", key=str, value=int)
    with pool.transaction() as tx:
        map["a"] = 1
        with pytest.raises(lastword.InUse, match="call `close` again") as error:
            in_thread(pool.close)
        assert "worker" not in str(error.value)
        assert pool.closed
        # The operations of a transaction go on, and all others are refused.
        map["b"] = 1
        for call in (lambda: map["a"], pool.flush, pool.view, pool.transaction().__enter__):
            with pytest.raises(lastword.Closed, match="call `close` again"):
                in_thread(call)
        with pytest.raises(lastword.Nested):
            pool.close()
    assert tx.state_name == "committed"
    with pytest.raises(lastword.Closed, match="call `close` again"):
        map["a"]
    pool.close()
    assert tx.ticket.is_durable
    with pytest.raises(lastword.Closed, match="is closed"):
        map["a"]
    with lastword.open(path) as again:
        assert dict(again.map("m", key=str, value=int)) == {"a": 1, "b": 1}


def test_conflict_does_not_hold_up_a_close(path):
    """Its transaction may run again, but the program only keeps its object."""
    with pytest.raises(lastword.Conflict):
        with lastword.open(path, relaxed=True, patience=0.2) as pool:
            map = pool.map("m", key=str, value=int)
            map["a"] = 1
            with pool.transaction() as tx:
                before = map["a"]
                in_thread(lambda: map.update(a=10))
                map["a"] = before + 1
    assert pool.closed and tx.state_name == "conflict"
    with pytest.raises(lastword.Closed):
        tx.__enter__()


def test_transaction_dropped_in_another_thread_is_rolled_back(pool, map):
    def rows():
        with pool.transaction():
            map["a"] = 1
            yield

    rows = rows()
    next(rows)
    with pytest.raises(lastword.WrongThread):
        in_thread(rows.close)
    del rows
    gc.collect()
    map["b"] = 2  # a transaction of its own
    assert not pool.in_transaction
    assert in_thread(lambda: dict(map)) == {"b": 2}
    for call in (pool.flush, lambda: pool.map("n"), pool.collections, pool.ticket.wait):
        tx = pool.transaction()
        tx.__enter__()
        dropped = [tx]
        del tx
        in_thread(dropped.clear)
        call()
        assert not pool.in_transaction


def test_threads_keep_the_sum(pool, map):
    names = [str(n) for n in range(8)]
    map.update({name: 100 for name in names})
    failures, sums = [], []

    def work(seed):
        try:
            for n in range(60):
                source, target = names[(n + seed) % 8], names[(n * 3 + seed * 5) % 8]

                def move(_):
                    map[source] -= 1
                    map[target] += 1

                pool.run(move)
                try:
                    with pool.transaction(read_only=True):
                        found = sum(map.values())
                except lastword.Conflict:
                    continue
                sums.append(found)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures and sum(map.values()) == 800
    assert set(sums) == {800} and len(sums) >= 36


def test_waiting_thread_lets_others_run(pool, map):
    """A thread that waits for another one's transaction does not hold the interpreter."""
    map["a"] = 0
    entered, blocked = threading.Event(), threading.Event()

    def writer():
        entered.wait(10)
        blocked.set()
        map["a"] = 5  # waits for the block below, which needs the interpreter's lock

    thread = threading.Thread(target=writer)
    thread.start()
    with pool.transaction():
        map["a"] = 1
        entered.set()
        blocked.wait(10)
        for _ in range(20_000):
            pass
    thread.join()
    assert map["a"] == 5


def test_log_grows_on_request_and_with_the_heap(path):
    with lastword.open(path, medium="file", bytes=1 << 20, log_bytes=1 << 20) as pool:
        assert pool.grow_log(4 << 20) == 4 << 20
        assert pool.grow_log(1 << 20) == pool.info()["log_bytes"] == 4 << 20
    options = {"max_bytes": 64 << 20, "max_log_bytes": 8 << 20, "relaxed": True}
    with lastword.open(path, **options) as pool:
        pool.grow(64 << 20)
        map = pool.map("m", key=int, value=bytes)
        for n in range(2_000):
            map[n % 10] = bytes(100_000)
            if pool.info()["log_bytes"] == 8 << 20:
                break
        assert pool.info()["log_bytes"] == 8 << 20


def test_heap_grows_for_run_and_for_blocks(path):
    with lastword.open(path, relaxed=True, bytes=1 << 20, max_bytes=16 << 20) as pool:
        map = pool.map("m", key=int, value=bytes)
        conflicts = 0
        for n in range(40):
            if n % 2:
                pool.run(lambda tx: map.update({n: bytes(100_000)}))
                continue
            while True:
                try:
                    with pool.transaction():
                        map[n] = bytes(100_000)
                    break
                except lastword.Conflict:
                    conflicts += 1
        assert len(map) == 40 and pool.info()["heap_bytes"] > 4 << 20 and conflicts < 40
        with pytest.raises(lastword.Full) as full:
            for n in range(1000):
                map[100 + n] = bytes(1_000_000)
        assert isinstance(full.value, OSError)
        with pytest.raises(lastword.Full):
            pool.run(lambda tx: map.update({9: bytes(5_000_000)}))
        assert len(map) >= 40 and map[39] == bytes(100_000)


def test_designs_run_the_same_program(tmp_path):
    for design in ("decoupled", "snapshot", "undo", "redo"):
        with lastword.open(tmp_path / f"{design}.pool", design=design) as pool:
            map = pool.ordered_map("m", key=int, value=str)
            with pool.transaction() as tx:
                map.update({n: str(n) for n in range(50)})
            with pytest.raises(KeyError):
                with pool.transaction():
                    map.pop(3)
                    map.pop(3)
            assert tx.ticket.is_durable and list(map) == list(range(50))
            assert pool.info()["design"] == design
