"""Runs the points of a sweep on a Ray cluster, each as a task of its own.

    python3 python/lastword_ray.py FILE.toml --out DIR --address HOST:PORT

A task runs `lastword sim sweep --point HASH` on one core of a node, in a directory of its own, and
returns the result file. This process writes the file to DIR before it waits for the next one. The
nodes need no shared directory, but the same build of `lastword`: a hash covers its commit.

A task whose worker or node fails runs again from its start, at most --retries times. A point that
fails by itself runs once: it would fail again. DIR equals the directory of a run on one machine, to
the last byte. Points with a file in DIR do not run: the same command continues a sweep.

Exit status: 0 all points ran, 1 some failed and the others ran, 2 usage or I/O.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import ray


@ray.remote(num_cpus=1)
def run_point(program: str, files: dict[str, bytes], sweep: str, point: str) -> bytes:
    """Returns the result file of a point. An `OSError` is worth another attempt."""
    with tempfile.TemporaryDirectory(prefix="lastword-") as folder:
        for name, content in files.items():
            Path(folder, name).write_bytes(content)
        command = [program, "sim", "sweep", sweep, "--point", point, "--out", "results"]
        environment = {**os.environ, "RAYON_NUM_THREADS": "1"}
        ran = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
        if ran.returncode == 1:
            raise RuntimeError(ran.stderr.strip())
        if ran.returncode != 0:
            raise OSError(f"`lastword` ended with status {ran.returncode}: {ran.stderr.strip()}")
        return Path(folder, "results", f"{point}.json").read_bytes()


def write_durably(path: Path, content: bytes) -> None:
    """Writes a file so that it is there whole or not at all, even after a power failure."""
    partial = path.with_suffix(".partial")
    with open(partial, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    partial.replace(path)


def run_points(sweep: Path, points: list[str], out: Path, program: str, retries: int) -> int:
    """Runs these points on the connected cluster, writes their results, and counts failures."""
    # Machine files lie beside the sweep's file.
    files = {path.name: path.read_bytes() for path in {sweep, *sweep.parent.glob("*.toml")}}
    task = run_point.options(max_retries=retries, retry_exceptions=[OSError])
    shared = ray.put(files)
    waiting = {task.remote(program, shared, sweep.name, point): point for point in points}
    failed = 0
    while waiting:
        (done,), _ = ray.wait(list(waiting), num_returns=1)
        point = waiting.pop(done)
        try:
            content = ray.get(done)
        except ray.exceptions.RayError as error:
            print(f"failed: {point}: {getattr(error, 'cause', error)}", file=sys.stderr)
            failed += 1
        else:
            write_durably(out / f"{point}.json", content)
    return failed


def main() -> int:
    """Runs the command line and returns the exit status."""
    parser = argparse.ArgumentParser(description="Run the points of a sweep on a Ray cluster.")
    parser.add_argument("sweep", type=Path, metavar="FILE.toml")
    parser.add_argument("--out", type=Path, required=True, metavar="DIR", help="result directory")
    parser.add_argument("--address", help="the cluster [default: RAY_ADDRESS, or this machine]")
    parser.add_argument("--program", default="lastword", help="program on each node (name or path)")
    parser.add_argument("--retries", type=int, default=3, help="retries of a point [default: 3]")
    arguments = parser.parse_args()
    command = [arguments.program, "sim", "sweep", str(arguments.sweep)]
    listed = subprocess.run([*command, "--list"], stdout=subprocess.PIPE, text=True)
    if listed.returncode not in (0, 1):  # 1: some points cannot run, and the others can
        return listed.returncode
    arguments.out.mkdir(parents=True, exist_ok=True)
    points = [line.split()[0] for line in listed.stdout.splitlines()]
    missing = [point for point in points if not (arguments.out / f"{point}.json").exists()]
    with ray.init(address=arguments.address, log_to_driver=False):
        retries = arguments.retries
        if run_points(arguments.sweep, missing, arguments.out, arguments.program, retries):
            return 1
    # Checks every result, repeats damaged ones here, and writes the list for `sim merge`.
    return subprocess.run([*command, "--out", str(arguments.out)]).returncode


if __name__ == "__main__":
    sys.exit(main())
