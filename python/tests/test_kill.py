"""`kill -9` in a loop: no acknowledged transaction is lost, and none is torn."""

import os
import random
import signal
import subprocess
import sys

import lastword

ROUNDS = int(os.environ.get("ROUNDS", 8))

CHILD = """
import sys, threading
import lastword

pool = lastword.open(sys.argv[1], relaxed=sys.argv[2] == "relaxed")
accounts = pool.map("accounts", key=int, value=int)
steps = pool.ordered_map("steps", key=int, value="json")
out = threading.Lock()

def work(thread):
    done = 0
    while True:
        done += 1

        def body(tx):
            accounts[thread] -= 1
            accounts[thread + 1] += 1
            steps[thread] = {"done": steps.get(thread, {"done": 0})["done"] + 1}
            return steps[thread]["done"]

        committed = pool.run(body)
        committed.ticket.wait()
        with out:
            sys.stdout.write(f"{thread} {committed.value}\\n")
            sys.stdout.flush()

for thread in (0, 10):
    threading.Thread(target=work, args=(thread,), daemon=True).start()
threading.Event().wait()
"""


def test_acknowledged_transactions_survive_a_kill(path):
    seed = int(os.environ.get("SEED", random.randrange(2**32)))
    print("SEED", seed)
    r = random.Random(seed)
    with lastword.open(path) as pool:
        accounts = pool.map("accounts", key=int, value=int)
        accounts.update({0: 1000, 1: 1000, 10: 1000, 11: 1000})
        pool.ordered_map("steps", key=int, value="json")
    acknowledged = {0: 0, 10: 0}
    for number in range(ROUNDS):
        mode = ("durable", "relaxed")[number % 2]
        command = [sys.executable, "-c", CHILD, str(path), mode]
        child = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        lines = r.randrange(1, 40)
        for _ in range(lines):
            thread, done = map(int, child.stdout.readline().split())
            acknowledged[thread] = done
        child.send_signal(signal.SIGKILL)
        # Lines that the child wrote before it died are acknowledged, too.
        for line in child.stdout.read().splitlines(keepends=True):
            if line.endswith("\n"):
                thread, done = map(int, line.split())
                acknowledged[thread] = done
        child.wait()
        with lastword.open(path) as pool:
            accounts = pool.map("accounts", key=int, value=int)
            steps = pool.ordered_map("steps", key=int, value="json")
            assert sum(accounts.values()) == 4000
            for thread, done in acknowledged.items():
                found = steps.get(thread, {"done": 0})["done"]
                assert found >= done, f"thread {thread}: {done} acknowledged, {found} found"
                assert accounts[thread] == 1000 - found and accounts[thread + 1] == 1000 + found
                acknowledged[thread] = found
            assert pool.check()
    assert all(acknowledged.values())
