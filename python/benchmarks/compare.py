#!/usr/bin/env python3
"""Compares five stores on the same small work, called from Python.

    pip install ./python lmdb diskcache
    python3 python/benchmarks/compare.py DIRECTORY

The stores are lastword, lmdb, sqlite3, diskcache and shelve, all with text keys and values of 100
bytes. Each round runs every store once, in turn. The rounds are short, so that other programs
interrupt few of them. The first table has the median of the rounds with minimum and maximum, in
operations a second. The second has the median of the CPU time of an operation in microseconds, of
all threads of the process and with the work in the background.

| work | a crash of the machine loses |
|---|---|
| reads: 200 random keys, in one transaction where the store has one | - |
| durable: 5 updates, each durable on return | nothing |
| relaxed: 100 updates, each durable later | the last ones; all data of lmdb and shelve |
| batch: 200 new pairs in a transaction, durable on return | nothing; shelve: all data |
"""

import argparse
import os
import platform
import random
import shelve
import shutil
import sqlite3
import statistics
import subprocess
import tempfile
import time

VALUE = bytes(100)
BATCH = 200
READS = 200
RELAXED = 100
DURABLE = 5


class Store:
    def settle(self):
        """Ends work in the background, outside of the measured time."""


class Lastword(Store):
    name = "lastword"

    def open(self, path, durable):
        import lastword

        options = {"bytes": 64 << 20, "log_bytes": 64 << 20}
        self.pool = lastword.open(path + ".pool", relaxed=not durable, **options)
        self.map = self.pool.map("m", key=str, value=bytes)

    def put(self, key, value):
        self.map[key] = value

    def batch(self, pairs):
        self.map.update(pairs)

    def read(self, keys):
        with self.pool.transaction(read_only=True):
            for key in keys:
                self.map[key]

    def settle(self):
        self.pool.flush()

    def close(self):
        self.pool.close()


class Lmdb(Store):
    name = "lmdb"

    def open(self, path, durable):
        import lmdb

        self.env = lmdb.open(path + ".lmdb", map_size=1 << 30, sync=durable, metasync=durable)

    def put(self, key, value):
        with self.env.begin(write=True) as tx:
            tx.put(key.encode(), value)

    def batch(self, pairs):
        with self.env.begin(write=True) as tx:
            for key, value in pairs.items():
                tx.put(key.encode(), value)

    def read(self, keys):
        with self.env.begin() as tx:
            for key in keys:
                tx.get(key.encode())

    def settle(self):
        self.env.sync(True)

    def close(self):
        self.env.close()


class Sqlite(Store):
    name = "sqlite3"

    def open(self, path, durable):
        self.db = sqlite3.connect(path + ".sqlite", isolation_level=None)
        self.db.execute("PRAGMA journal_mode = WAL")
        self.db.execute(f"PRAGMA synchronous = {'FULL' if durable else 'NORMAL'}")
        columns = "key TEXT PRIMARY KEY, value BLOB"
        self.db.execute(f"CREATE TABLE IF NOT EXISTS m ({columns}) WITHOUT ROWID")

    def put(self, key, value):
        self.db.execute("INSERT OR REPLACE INTO m VALUES (?, ?)", (key, value))

    def batch(self, pairs):
        self.db.execute("BEGIN")
        self.db.executemany("INSERT OR REPLACE INTO m VALUES (?, ?)", pairs.items())
        self.db.execute("COMMIT")

    def read(self, keys):
        self.db.execute("BEGIN")
        for key in keys:
            self.db.execute("SELECT value FROM m WHERE key = ?", (key,)).fetchone()
        self.db.execute("COMMIT")

    def close(self):
        self.db.close()


class Diskcache(Store):
    name = "diskcache"

    def open(self, path, durable):
        import diskcache

        settings = {"sqlite_synchronous": 2 if durable else 1, "eviction_policy": "none"}
        self.cache = diskcache.Cache(path + ".diskcache", **settings)

    def put(self, key, value):
        self.cache[key] = value

    def batch(self, pairs):
        with self.cache.transact():
            for key, value in pairs.items():
                self.cache[key] = value

    def read(self, keys):
        with self.cache.transact():
            for key in keys:
                self.cache[key]

    def close(self):
        self.cache.close()


class Shelve(Store):
    """Neither atomic nor safe in a crash: `durable` means a sync after the update."""

    name = "shelve"

    def open(self, path, durable):
        self.table, self.durable, self.path = shelve.open(path + ".shelve"), durable, path

    def sync(self):
        self.table.sync()
        directory = os.path.dirname(self.path)
        for name in os.listdir(directory):
            if ".shelve" in name:
                file = os.open(os.path.join(directory, name), os.O_RDONLY)
                os.fsync(file)
                os.close(file)

    def put(self, key, value):
        self.table[key] = value
        if self.durable:
            self.sync()

    def batch(self, pairs):
        for key, value in pairs.items():
            self.table[key] = value
        self.sync()

    def read(self, keys):
        for key in keys:
            self.table[key]

    def close(self):
        self.table.close()


STORES = [Lastword, Lmdb, Sqlite, Diskcache, Shelve]


def put_all(store, keys):
    for key in keys:
        store.put(key, VALUE)


def measure(directory, rounds):
    """Returns the rates and CPU times of each work and store."""
    measured, random_keys = {}, random.Random(1)
    stores = [kind() for kind in STORES]
    keys = [f"user:{n:08}" for n in range(rounds * BATCH)]
    random_keys.shuffle(keys)

    def run(work, operations, call):
        first = random_keys.randrange(len(stores))
        for store in stores[first:] + stores[:first]:
            begin, cpu = time.perf_counter(), time.process_time()
            call(store)
            rate = operations / (time.perf_counter() - begin)
            store.settle()
            cpu = (time.process_time() - cpu) / operations
            measured.setdefault((work, store.name), []).append((rate, cpu))

    for durable in (True, False):
        for store in stores:
            folder = os.path.join(directory, store.name)
            os.makedirs(folder, exist_ok=True)
            store.open(os.path.join(folder, "store"), durable)
        for number in range(rounds):
            new = dict.fromkeys(keys[number * BATCH :][:BATCH], VALUE)
            if durable:
                some = random_keys.sample(list(new), DURABLE)
                run("batch", BATCH, lambda store: store.batch(new))
                run("durable", DURABLE, lambda store: put_all(store, some))
            else:
                some, more = random_keys.sample(keys, RELAXED), random_keys.sample(keys, READS)
                run("relaxed", RELAXED, lambda store: put_all(store, some))
                run("reads", READS, lambda store: store.read(more))
        for store in stores:
            store.close()
    return measured


def short(rate):
    if rate < 1000:
        return f"{rate:.3g}"
    return f"{rate / 1000:.3g} k" if rate < 1e6 else f"{rate / 1e6:.3g} M"


def shown(rates):
    return f"{short(statistics.median(rates))} ({short(min(rates))} to {short(max(rates))})"


def main():
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("directory", help="an existing directory on the disk to be measured")
    arguments.add_argument("--rounds", type=int, default=101)
    given = arguments.parse_args()
    directory = tempfile.mkdtemp(dir=given.directory)
    try:
        results = measure(directory, given.rounds)
    finally:
        shutil.rmtree(directory)
    here = os.path.dirname(os.path.abspath(__file__))
    commit = subprocess.run(
        ["git", "-C", here, "rev-parse", "--short", "HEAD"], capture_output=True, text=True
    ).stdout.strip()
    load = os.getloadavg()[0]
    print(f"{os.cpu_count()} CPUs, load {load:.1f}, Python {platform.python_version()}, {commit}")
    print("operations/s, median (minimum to maximum) of", given.rounds, "rounds\n")
    print_table(results, lambda rounds: shown([rate for rate, _ in rounds]))
    print("\nCPU time of an operation, us, median\n")
    print_table(results, lambda rounds: f"{1e6 * statistics.median(cpu for _, cpu in rounds):.3g}")


def print_table(results, cell):
    names = [kind.name for kind in STORES]
    print("| work |", " | ".join(names), "|")
    print("|---" * (len(names) + 1) + "|")
    for work in ("reads", "durable", "relaxed", "batch"):
        print(f"| {work} |", " | ".join(cell(results[work, name]) for name in names), "|")


if __name__ == "__main__":
    main()
