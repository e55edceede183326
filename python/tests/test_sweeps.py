"""Sweeps on Ray and by the script for Slurm give the files of a run on one machine."""

import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time

import pytest

PACKAGE = pathlib.Path(__file__).parent.parent
SCRIPT = PACKAGE.parent / "docs" / "research" / "slurm-sweep.sh"
BUILT = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", PACKAGE.parent / "target")) / "debug"
DEADLINE = 120  # seconds, of a test that hangs

SWEEP = """
[base]
workload = "hashtable"
machine = "small.toml"
scale = 0.001
transactions = 200
[axes]
design = ["volatile", "sw-undo", "lad"]
seed = [1, 2]
"""

# Stands for `lastword`: reports each start of a point with the process of its worker, and then does
# as a test says. All other commands go to the program itself.
PROGRAM = """#!/bin/sh
if [ "$4" = --point ]; then
    echo "$PPID" > "{room}/$5.$$.partial"
    mv "{room}/$5.$$.partial" "{room}/started/$5.$$"
    {body}
fi
exec "{lastword}" "$@"
"""


@pytest.fixture
def lastword():
    program = BUILT.resolve() / "lastword"
    if not program.exists():
        pytest.skip(f"{BUILT} has no lastword: cargo build -p lastword-cli")
    return program


@pytest.fixture
def room(tmp_path, lastword):
    """A directory with a sweep, its machine, and the results of a run on one machine."""
    machine = PACKAGE.parent / "crates" / "sim" / "machines" / "tiny-lad.toml"
    text = machine.read_text()
    assert 'name = "tiny-lad"' in text
    (tmp_path / "small.toml").write_text(text.replace('"tiny-lad"', '"small"'))
    (tmp_path / "sweep.toml").write_text(SWEEP)
    run(tmp_path, lastword, "sim", "sweep", "sweep.toml", "--out", "one")
    assert len(files(tmp_path / "one")) == 7
    return tmp_path


def run(room, *command, status=0, **environment):
    environment = {**os.environ, **environment}
    ran = subprocess.run(command, cwd=room, env=environment, capture_output=True, timeout=DEADLINE)
    assert ran.returncode == status, ran.stderr.decode()
    return ran


def files(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def assert_equal_results(room, lastword, folder):
    assert files(room / folder) == files(room / "one")
    for form in ("table", "json", "csv"):
        of = [run(room, lastword, "sim", "merge", it, "--format", form) for it in (folder, "one")]
        assert of[0].stdout == of[1].stdout and len(of[0].stdout) > 100


def wait_until(condition):
    begun = time.monotonic()
    while not (found := condition()):
        assert time.monotonic() - begun < DEADLINE
        time.sleep(0.05)
    return found


def parent(process):
    status = pathlib.Path(f"/proc/{process}/stat").read_text()
    return int(status.rpartition(")")[2].split()[1])


@pytest.fixture
def cluster(monkeypatch, tmp_path):
    """A cluster on this host: a head without cores, and two nodes with one core each."""
    pytest.importorskip("ray", reason="pip cannot install ray")
    monkeypatch.setenv("RAY_USAGE_STATS_ENABLED", "0")
    # A socket's path has at most 107 bytes, which pytest's directories exceed.
    folder = tempfile.mkdtemp(prefix="ray-", dir="/tmp")
    monkeypatch.setenv("RAY_TMPDIR", folder)
    monkeypatch.setenv("TMPDIR", str(tmp_path))  # a killed task leaves its directory
    from ray.cluster_utils import Cluster

    cluster = Cluster()
    try:
        cluster.add_node(num_cpus=0, include_dashboard=False)
        for _ in range(2):
            cluster.add_node(num_cpus=1)
        yield cluster
    finally:
        cluster.shutdown()
        shutil.rmtree(folder, ignore_errors=True)


class Driver:
    """`lastword_ray.py` with a program that stands for `lastword`."""

    def __init__(self, room, lastword, cluster, body):
        self.started = room / "started"
        self.started.mkdir()
        program = room / "program"
        program.write_text(PROGRAM.format(room=room, lastword=lastword, body=body))
        program.chmod(0o755)
        self.command = [sys.executable, PACKAGE / "lastword_ray.py", "sweep.toml"]
        self.command += ["--out", "ray", "--address", cluster.address, "--program", program]
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(self.command, cwd=room, stdout=pipe, stderr=pipe, text=True)

    def starts(self):
        """Returns the workers of each point, one for each start."""
        workers = {}
        for path in self.started.iterdir():
            workers.setdefault(path.stem, []).append(int(path.read_text()))
        return workers

    def wait(self, count):
        """Returns the starts, once there are as many."""
        return wait_until(lambda: len(starts := self.starts()) >= count and starts)

    def end(self):
        """Returns the exit status, and the lines of both streams, which include Ray's messages."""
        stdout, stderr = self.process.communicate(timeout=DEADLINE)
        return self.process.returncode, stdout.splitlines(), stderr.splitlines()


def test_ray_sweep_survives_worker_and_node(room, lastword, cluster):
    body = f'until [ -e "{room}/go" ] || [ -e "{room}/go.$5" ]; do sleep 0.05; done'
    driver = Driver(room, lastword, cluster, body)
    try:
        # Each of the two cores has a point. One ends, and the third begins.
        first = min(driver.wait(2))
        (room / f"go.{first}").touch()
        wait_until((room / "ray" / f"{first}.json").exists)
        running = {point: worker for point, (worker,) in driver.wait(3).items() if point != first}
        nodes = {node.all_processes["raylet"][0].process.pid: node for node in cluster.worker_nodes}
        killed, lost = sorted(running)
        assert parent(running[killed]) != parent(running[lost])
        cluster.remove_node(nodes[parent(running[lost])], allow_graceful=False)
        os.kill(running[killed], signal.SIGKILL)
        (room / "go").touch()
        status, stdout, stderr = driver.end()
    finally:
        driver.process.kill()
        (room / "go").touch()
    assert status == 0, stderr
    assert "6 of 6 points: 6 were there, 0 were run, 0 failed" in stdout
    again = {point for point, workers in driver.starts().items() if len(workers) > 1}
    assert (len(driver.starts()), again) == (6, {killed, lost})
    assert_equal_results(room, lastword, "ray")


def test_ray_sweep_continues_after_failures(room, lastword, cluster):
    listed = run(room, lastword, "sim", "sweep", "sweep.toml", "--list").stdout.decode()
    fails, retried, damaged, *_ = [line.split()[0] for line in listed.splitlines()]
    body = f"""
    if [ $5 = {fails} ]; then echo "no luck" >&2; exit 1; fi
    if [ $5 = {retried} ] && mkdir "{room}/full"; then echo "disk full" >&2; exit 2; fi"""
    driver = Driver(room, lastword, cluster, body)
    try:
        status, stdout, stderr = driver.end()
    finally:
        driver.process.kill()
    assert (status, stderr[-1]) == (1, f"failed: {fails}: no luck")
    assert not any("points: " in line for line in stdout)
    again = {point for point, workers in driver.starts().items() if len(workers) > 1}
    assert (len(driver.starts()), again) == (6, {retried})

    result = room / "ray" / f"{damaged}.json"
    result.write_bytes(result.read_bytes()[:-10])
    command = [lastword if part == room / "program" else part for part in driver.command]
    stdout = run(room, *command).stdout
    assert stdout == b"6 of 6 points: 5 were there, 1 were run, 0 failed\n"
    assert_equal_results(room, lastword, "ray")


def test_slurm_slices_equal_one_machine(room, lastword):
    def task(number, status=0, **more):
        path = f"{lastword.parent}:{os.environ['PATH']}"
        command = [SCRIPT, "sweep.toml", "slurm", "4"]
        return run(room, *command, status=status, PATH=path, SLURM_ARRAY_TASK_ID=number, **more)

    assert b"`4/4` is no slice" in task("4", status=2).stderr
    assert b"usage: " in task("", status=2).stderr
    counts = {number: task(number, SLURM_CPUS_PER_TASK="2").stdout.split()[0] for number in "031"}
    assert counts == {"0": b"2", "1": b"2", "3": b"1"}
    merge = run(room, lastword, "sim", "merge", "slurm", status=1)
    assert merge.stdout == b"" and merge.stderr.count(b"missing: ") == 1
    task("2")
    task("2")
    assert_equal_results(room, lastword, "slurm")
