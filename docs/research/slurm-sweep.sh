#!/bin/sh
# One slice of a sweep, as a task of a Slurm array:
#   sbatch --array=0-3 docs/research/slurm-sweep.sh FILE.toml DIR 4
# Task I runs slice I of 4. The number of slices is an argument, because SLURM_ARRAY_TASK_COUNT
# changes when some tasks are submitted again: sbatch --array=2 ... FILE.toml DIR 4
#SBATCH --job-name=lastword-sweep
#SBATCH --cpus-per-task=4
#SBATCH --time=01:00:00
#SBATCH --requeue
set -eu
if [ $# -ne 3 ] || [ -z "${SLURM_ARRAY_TASK_ID:-}" ]; then
    echo "usage: sbatch --array=0-LAST slurm-sweep.sh FILE.toml DIR SLICES" >&2
    exit 2
fi
# Without a limit, lastword takes all cores that the affinity mask of the task allows.
export RAYON_NUM_THREADS="${SLURM_CPUS_PER_TASK:-1}"
exec lastword sim sweep "$1" --slice "$SLURM_ARRAY_TASK_ID/$3" --out "$2"
