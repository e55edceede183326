#!/usr/bin/env python3
"""A durable ledger over the C library, with ctypes alone.

    ledger.py PATH [LIBRARY]

PATH is a pool. The first run creates it, and later runs continue on it. LIBRARY is the shared
library. Its default is LASTWORD_LIBRARY in the environment, and then the system's library.

The ledger has two accounts of one word each. Their sum never changes. Python 3.8 or later.
"""

import ctypes
import ctypes.util
import os
import sys
import threading

OK, CONFLICT, ENOENT = 0, -1, -15  # status
READ_ONLY = 1
INSUFFICIENT_FUNDS = 1  # a body may return any positive number to refuse

ROOT_BYTES = 24
SAVINGS, CURRENT, TRANSFERS = 0, 8, 16  # words of the root
CENTS = 10_000
THREADS, EACH = 2, 200

Word = ctypes.c_uint64
Handle = ctypes.c_void_p
Body = ctypes.CFUNCTYPE(ctypes.c_int, Handle, ctypes.c_void_p)


class Options(ctypes.Structure):
    """lw_options, field by field."""

    _fields_ = [
        ("size", ctypes.c_uint64),
        ("design", ctypes.c_uint32),
        ("medium", ctypes.c_uint32),
        ("durability", ctypes.c_uint32),
        ("threads", ctypes.c_uint32),
        ("bytes", ctypes.c_uint64),
        ("log_bytes", ctypes.c_uint64),
        ("layout", ctypes.c_char_p),
        ("layout_version", ctypes.c_uint64),
        ("message", ctypes.c_void_p),
        ("message_bytes", ctypes.c_uint64),
        ("ring_entries", ctypes.c_uint64),
        ("patience_ms", ctypes.c_uint64),
        ("without_log", ctypes.c_uint64),
    ]


def out(kind):
    return ctypes.POINTER(kind)


# Arguments of each function, and its result type if that is not a status. By default ctypes passes
# every argument as an int of 32 bits.
PROTOTYPES = {
    "lw_strerror": ([ctypes.c_int], ctypes.c_char_p),
    "lw_options_default": ([out(Options), Word],),
    "lw_pool_create": ([ctypes.c_char_p, out(Options), out(Handle)],),
    "lw_pool_open": ([ctypes.c_char_p, out(Options), out(Handle)],),
    "lw_pool_close": ([Handle],),
    "lw_pool_root": ([Handle, Word, out(Word)],),
    "lw_pool_wait": ([Handle, Word],),
    "lw_worker_open": ([Handle, out(Handle)],),
    "lw_worker_close": ([Handle],),
    "lw_run": ([Handle, ctypes.c_uint, Body, ctypes.c_void_p, out(Word)],),
    "lw_begin": ([Handle, ctypes.c_uint],),
    "lw_commit": ([Handle, out(Word)],),
    "lw_abort": ([Handle],),
    "lw_read": ([Handle, Word, Word, out(Word)],),
    "lw_write": ([Handle, Word, Word, Word],),
}


class Status(Exception):
    """A status of the library other than OK."""

    def __init__(self, status, text):
        super().__init__(text)
        self.status = status


def load(name):
    name = name or os.environ.get("LASTWORD_LIBRARY") or ctypes.util.find_library("lastword")
    if not name:
        sys.exit("ledger: liblastword not found: pass LIBRARY, or set LASTWORD_LIBRARY")
    library = ctypes.CDLL(name)
    for call, (arguments, *result) in PROTOTYPES.items():
        getattr(library, call).argtypes = arguments
        getattr(library, call).restype = result[0] if result else ctypes.c_int
    return library


class Worker:
    """A worker of a thread, and the accesses in its transaction."""

    def __init__(self, library, pool):
        self.library = library
        self.handle = Handle()
        self.must(library.lw_worker_open(pool, ctypes.byref(self.handle)))

    def close(self):
        self.must(self.library.lw_worker_close(self.handle))

    def must(self, status):
        if status != OK:
            raise Status(status, self.library.lw_strerror(status).decode())

    def read(self, thing, offset):
        value = Word()
        self.must(self.library.lw_read(self.handle, thing, offset, ctypes.byref(value)))
        return value.value

    def write(self, thing, offset, value):
        self.must(self.library.lw_write(self.handle, thing, offset, value))

    def in_parts(self, body, flags=0):
        """Runs body(self) as a transaction in parts, again after a conflict. Returns the result of
        the body and the ID."""
        last = Word()
        while True:
            self.must(self.library.lw_begin(self.handle, flags))
            try:
                value = body(self)
                self.must(self.library.lw_commit(self.handle, ctypes.byref(last)))
                return value, last.value
            except BaseException as error:
                # After every error the transaction is still open.
                self.library.lw_abort(self.handle)
                if not (isinstance(error, Status) and error.status == CONFLICT):
                    raise

    def run(self, body):
        """Runs a body through lw_run. The body may return a positive number to roll back. Returns
        that number or 0, and the ID."""
        last, raised = Word(), []

        def called(_handle, _argument):
            # ctypes would print an exception that left here and return 0, which commits.
            raised.clear()
            try:
                return body(self) or OK
            except Status as error:
                if error.status != CONFLICT:
                    raised.append(error)
                return error.status
            except BaseException as error:
                raised.append(error)
                return 1

        # The variable keeps the callback alive while C code may call it.
        callback = Body(called)
        status = self.library.lw_run(self.handle, 0, callback, None, ctypes.byref(last))
        if raised:
            raise raised[0]
        if status < OK:
            self.must(status)
        return status, last.value


class Ledger:
    """An open pool with two accounts."""

    def __init__(self, library, path):
        self.library = library
        options, message = Options(), ctypes.create_string_buffer(512)
        self.must(library.lw_options_default(ctypes.byref(options), ctypes.sizeof(options)))
        options.bytes = options.log_bytes = 1 << 20
        options.layout = b"example ledger"
        options.message = ctypes.cast(message, ctypes.c_void_p)
        options.message_bytes = len(message)
        self.pool = Handle()
        where, how = os.fsencode(path), ctypes.byref(options)
        status = library.lw_pool_open(where, how, ctypes.byref(self.pool))
        if status == ENOENT:
            status = library.lw_pool_create(where, how, ctypes.byref(self.pool))
        if status != OK:
            raise Status(status, message.value.decode() or library.lw_strerror(status).decode())
        root = Word()
        self.must(library.lw_pool_root(self.pool, ROOT_BYTES, ctypes.byref(root)))
        self.root = root.value

    def must(self, status):
        if status != OK:
            raise Status(status, self.library.lw_strerror(status).decode())

    def worker(self):
        return Worker(self.library, self.pool)

    def wait(self, last):
        self.must(self.library.lw_pool_wait(self.pool, last))

    def close(self):
        self.must(self.library.lw_pool_close(self.pool))

    # Bodies of transactions. They may run several times.

    def fill(self, worker):
        if worker.read(self.root, SAVINGS) + worker.read(self.root, CURRENT) == 0:
            worker.write(self.root, SAVINGS, CENTS)

    def look(self, worker):
        return tuple(worker.read(self.root, at) for at in (SAVINGS, CURRENT, TRANSFERS))

    def transfer(self, worker, cents):
        savings, current, transfers = self.look(worker)
        if not 0 <= savings - cents <= CENTS:
            return INSUFFICIENT_FUNDS
        worker.write(self.root, SAVINGS, savings - cents)
        worker.write(self.root, CURRENT, current + cents)
        worker.write(self.root, TRANSFERS, transfers + 1)
        return OK


def show(ledger, when):
    worker = ledger.worker()
    (savings, current, transfers), _ = worker.in_parts(ledger.look, READ_ONLY)
    worker.close()
    print(f"{when}: savings {savings}, current {current}, transfers {transfers}")
    if savings + current != CENTS:
        sys.exit(f"ledger: {when}: the sum is {savings + current}, not {CENTS}")
    return transfers


def small_transfers(ledger, number, failures):
    """The work of a thread, which moves cents back and forth with a worker of its own."""
    try:
        worker = ledger.worker()
        for i in range(EACH):
            cents = 1 if (i + number) % 2 else -1
            worker.in_parts(lambda worker, cents=cents: ledger.transfer(worker, cents))
        worker.close()
    except Exception as error:  # the thread would lose it
        failures.append(error)


def main():
    if len(sys.argv) not in (2, 3):
        sys.exit("usage: ledger.py PATH [LIBRARY]")
    path, library = sys.argv[1], load(sys.argv[2] if len(sys.argv) == 3 else None)
    ledger = Ledger(library, path)
    worker = ledger.worker()
    worker.in_parts(ledger.fill)
    before = show(ledger, "opened")

    # In parts.
    refused, last = worker.in_parts(lambda worker: ledger.transfer(worker, 1))
    if refused:
        _, last = worker.in_parts(lambda worker: ledger.transfer(worker, -1))
    ledger.wait(last)
    print(f"in parts: transaction {last}, durable")

    # Through lw_run, where a positive result rolls back.
    refused, _ = worker.run(lambda worker: ledger.transfer(worker, CENTS + 1))
    if refused != INSUFFICIENT_FUNDS:
        sys.exit("ledger: a transfer exceeded the balance")
    status, last = worker.run(lambda worker: ledger.transfer(worker, 1))
    if status:
        status, last = worker.run(lambda worker: ledger.transfer(worker, -1))
    ledger.wait(last)
    print(f"lw_run: one transfer refused, one made, transaction {last}, durable")

    failures = []
    threads = [
        threading.Thread(target=small_transfers, args=(ledger, number, failures))
        for number in range(THREADS)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]
    after = show(ledger, "at the end")
    worker.close()
    ledger.close()  # makes all transactions durable

    ledger = Ledger(library, path)
    reopened = show(ledger, "reopened")
    ledger.close()
    # The program refuses a small transfer from an empty account.
    if reopened != after or after < before + 2:
        sys.exit(f"ledger: {before} transfers, {after} at the end, {reopened} reopened")


if __name__ == "__main__":
    try:
        main()
    except Status as error:
        sys.exit(f"ledger: {error}")
