"""Opening, tickets, views, backups, asyncio and forks."""

import asyncio
import errno
import os
import subprocess
import sys
import threading

import pytest

import lastword


def test_default_is_durable_on_return(path):
    with lastword.open(path) as pool:
        map = pool.map("m", key=str, value=int)
        with pool.transaction() as tx:
            map["a"] = 1
        assert tx.ticket.is_durable
        map["b"] = 1
        assert pool.ticket.is_durable


def test_relaxed_commits_have_tickets(path):
    # Without the pool's own pause nothing is durable before a thread waits.
    with lastword.open(path, relaxed=True, pause=3600.0) as pool:
        map = pool.map("m", key=str, value=int)
        with pool.transaction() as tx:
            map["a"] = 1
        first = tx.ticket
        done = pool.run(lambda tx: map.get("a"))
        assert not first.is_durable and "not durable" in repr(first)
        with pytest.raises(TimeoutError, match="after 0 s"):
            first.wait(timeout=0.0)
        done.ticket.wait(timeout=60)
        assert done.value == 1 and first.is_durable and first.id <= done.ticket.id
        map["b"] = 1
        pool.flush()
        assert pool.ticket.is_durable
        assert "durable" in repr(first)


def test_errors_have_the_bases_of_python(path, tmp_path):
    with pytest.raises(FileNotFoundError):
        lastword.open(path, create=False)
    with pytest.raises(FileNotFoundError):
        lastword.open(tmp_path / "none" / "a.pool")
    with lastword.open(path, layout="bank", layout_version=1):
        with pytest.raises(lastword.InUse):
            lastword.open(path)
    with pytest.raises(FileExistsError):
        lastword.open(path, create=True)
    with pytest.raises(lastword.Mismatch, match="bank"):
        lastword.open(path, layout="shop")
    never = float("inf")
    for name, value in [("design", "x"), ("medium", "x"), ("patience", never), ("pause", -1.0)]:
        with pytest.raises(lastword.BadOption, match=f"option `{name}`"):
            lastword.open(tmp_path / "new.pool", **{name: value})
    with pytest.raises(lastword.BadOption, match="option `group`"):
        lastword.open(tmp_path / "new.pool", group=-1)
    with pytest.raises(lastword.BadOption):
        lastword.open(tmp_path / "new.pool", bytes=1)
    for name, value in [("byte", 1), ("bytes", "1")]:
        with pytest.raises(TypeError, match=f"option `{name}`"):
            lastword.open(path, **{name: value})
    path.write_bytes(b"x" * 8192)
    with pytest.raises(lastword.Damaged):
        lastword.open(path)
    for name in lastword.errors.__all__:
        assert issubclass(getattr(lastword, name), lastword.Error)


def test_system_errors_have_number_and_path(path, pool):
    none = path.with_name("none.pool")
    with pytest.raises(lastword.NotFound) as error:
        lastword.open(none, create=False)
    assert (error.value.errno, error.value.filename) == (errno.ENOENT, str(none))
    assert str(error.value) == error.value.strerror and str(none) in str(error.value)
    with pytest.raises(lastword.InUse) as error:
        lastword.open(path)
    assert (error.value.errno, error.value.filename) == (errno.EBUSY, str(path))
    with pytest.raises(lastword.Exists) as error:
        lastword.open(path, create=True)
    assert error.value.errno == errno.EEXIST
    with pytest.raises(lastword.Full) as error:
        pool.map("m").update(a=bytes(1 << 30))
    assert error.value.errno == errno.ENOSPC and error.value.filename is None


def test_reader_shows_a_closed_pool(path):
    with lastword.open(path) as pool:
        pool.map("m", key=str, value=int)["a"] = 1
    before = path.read_bytes()
    with lastword.open(path, read_only=True) as reader:
        map = reader.map("m", key=str, value=int)
        assert dict(map) == {"a": 1} and reader.check()["collections"] == {"m": 1}
        with pytest.raises(lastword.ReadOnly):
            map["a"] = 2
        with pytest.raises(KeyError):
            reader.map("none")
        assert reader.info()["clean"]
    with pytest.raises(lastword.Closed):
        map["a"]
    assert path.read_bytes() == before


def test_view_does_not_change(pool):
    map = pool.ordered_map("m", key=int, value=int)
    map.update({n: n for n in range(1000)})
    with pool.view() as view:
        map.update({n: -1 for n in range(1000)})
        map[5000] = 1
        then = view[map]
        assert list(then.items()) == [(n, n) for n in range(1000)] and then.last() == (999, 999)
        pool.map("later")
        with pytest.raises(KeyError, match="later"):
            view.map("later")
        assert view.check()["collections"]["m"] == 1000 and view.id <= pool.ticket.id
        with pytest.raises(lastword.ReadOnly):
            then[1] = 1
        with pytest.raises(TypeError, match="no options"):
            lastword.View(pool, layout="x")
    with pytest.raises(lastword.Closed):
        then[1]


def test_finalizer_may_close_the_view_that_is_described(path):
    """The garbage collector runs while the description is made."""
    program = """
import gc, sys, lastword

class Closes:
    def __init__(self, view):
        self.view, self.cycle = view, self
    def __del__(self):
        self.view.close()
        print("closed")

view = lastword.open(sys.argv[1]).view()
gc.disable()
Closes(view)
gc.set_threshold(1)
gc.enable()
print(view.info()["design"])
"""
    command = [sys.executable, "-c", program, str(path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=20)
    assert (done.stdout, done.returncode) == ("closed\ndecoupled\n", 0), done.stderr


def test_map_of_another_pool_is_refused(pool, tmp_path):
    with lastword.open(tmp_path / "other.pool", relaxed=True) as other:
        map = pool.map("m")
        with other.transaction() as tx:
            with pytest.raises(lastword.Mismatch):
                tx[map]
        with other.view() as view:
            with pytest.raises(lastword.Mismatch):
                view[map]


def test_backup_is_a_pool(pool, tmp_path):
    map = pool.map("m", key=int, value=int)
    map.update({n: n for n in range(100)})
    copied = pool.backup(tmp_path / "copy.pool")
    map.clear()
    assert copied <= pool.ticket.id
    with lastword.open(tmp_path / "copy.pool") as copy:
        assert len(copy.map("m", key=int, value=int)) == 100


def test_descriptions_are_dictionaries(pool, path):
    metrics, info = pool.metrics(), pool.info()
    assert metrics["log_capacity_bytes"] == info["log_bytes"] and info["path"] == path
    assert pool.check()["collections"] == {}


def test_tickets_are_awaited_without_threads(path):
    async def main():
        with lastword.open(path, relaxed=True) as pool:
            map = pool.map("m", key=int, value=int)

            async def one(n):
                with pool.transaction() as tx:
                    map[n] = n
                await tx.ticket
                assert tx.ticket.is_durable
                await tx.ticket

            await asyncio.gather(*(one(n) for n in range(200)))
            before = threading.active_count()
            cancelled = asyncio.ensure_future(one(1000))
            await asyncio.sleep(0)
            cancelled.cancel()
            with pytest.raises(asyncio.CancelledError):
                await cancelled
            await one(1001)
            return before, len(map)

    assert asyncio.run(main()) == (1, 202)

    async def again():
        with lastword.open(path, relaxed=True) as pool:
            pool.map("m", key=int, value=int)[1] = 1
            await pool.ticket
            assert pool.ticket.is_durable

    asyncio.run(again())  # a second loop has a pipe of its own


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system has no fork")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_forked_child_is_refused_and_does_no_harm(pool, tmp_path):
    map = pool.map("m", key=str, value=int)
    map["a"] = 1
    view, ticket = pool.view(), pool.ticket
    with lastword.open(tmp_path / "read.pool") as other:
        other.map("m")["a"] = b"1"
    reader = lastword.open(tmp_path / "read.pool", read_only=True)
    with pool.transaction() as tx:
        map["a"] = 2
        child = os.fork()
        if child == 0:
            status = 1
            try:
                for call in (
                    lambda: map["a"],
                    lambda: pool.transaction().__enter__(),
                    lambda: view[map]["a"],
                    pool.close,
                    pool.flush,
                    view.info,
                    reader.info,
                    reader.check,
                    lambda: ticket.is_durable,
                    ticket.wait,
                ):
                    with pytest.raises(lastword.Forked):
                        call()
                for call in (lambda: tx[map]["a"], lambda: tx.__exit__(None, None, None)):
                    with pytest.raises(lastword.WrongThread):
                        call()
                view.close()  # as the end of a `with` block, which does nothing
                reader.close()
                with lastword.open(tmp_path / "own.pool") as own:
                    own.map("m")["a"] = b"1"
                del map, tx, pool, view, reader, ticket, call  # as at the end of a program
                status = 0
            finally:
                os._exit(status)
        assert os.waitpid(child, 0)[1] == 0
    assert map["a"] == 2 and pool.check() and view[map]["a"] == 1
    assert dict(reader.map("m")) == {"a": b"1"}
    with lastword.open(tmp_path / "own.pool") as own:
        assert own.map("m")["a"] == b"1"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system has no fork")
def test_program_that_forks_ends_in_both_processes(path):
    program = """
import os, sys, lastword
pool = lastword.open(sys.argv[1])
map = pool.map("m", key=str, value=int)
tx = pool.transaction()
tx.__enter__()
map["a"] = 1
child = os.fork()
if child:
    tx.__exit__(None, None, None)
    print(os.waitpid(child, 0)[1], map["a"])
"""
    command = [sys.executable, "-W", "ignore", "-c", program, str(path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert (done.stdout, done.returncode) == ("0 1\n", 0), done.stderr
    with lastword.open(path) as pool:
        assert pool.map("m", key=str, value=int)["a"] == 1


def test_program_that_closes_nothing_loses_nothing(path):
    program = """
import sys, lastword
pool = lastword.open(sys.argv[1], relaxed=True, pause=3600.0)
numbers = pool.map("m", key=str, value=int)
numbers["a"] = 1
cycle = [pool]
cycle.append(cycle)
"""
    subprocess.run([sys.executable, "-c", program, str(path)], check=True, timeout=60)
    with lastword.open(path, read_only=True) as pool:
        assert pool.info()["clean"] and dict(pool.map("m", key=str, value=int)) == {"a": 1}


def test_program_that_keeps_only_a_map_loses_nothing(path):
    program = """
import sys, threading, lastword
pool = lastword.open(sys.argv[1], relaxed=True, pause=3600.0)
numbers = pool.map("m", key=str, value=int)
tx = pool.transaction()
del pool
# The interpreter never frees the map.
wait = lambda numbers: threading.Event().wait()
threading.Thread(target=wait, args=(numbers,), daemon=True).start()
numbers["a"] = 1
if sys.argv[2] == "inside":
    tx.__enter__()
    numbers["b"] = 1
"""
    for place in ("outside", "inside"):
        pool = path.with_name(place)
        subprocess.run([sys.executable, "-c", program, str(pool), place], check=True, timeout=60)
        with lastword.open(pool, read_only=True) as reader:
            assert reader.info()["clean"]
            assert dict(reader.map("m", key=str, value=int)) == {"a": 1}
