#!/bin/sh
# Installs Slurm, Open MPI and MPICH from Debian's packages, where that can be done. What is missing
# afterwards is skipped by engines.py, which says so.
set -eu
missing=
for pair in srun:slurm-client slurmctld:slurmctld slurmd:slurmd munged:munge mpirun.openmpi:openmpi-bin mpirun.mpich:mpich; do
    command -v "${pair%%:*}" > /dev/null || command -v "/usr/sbin/${pair%%:*}" > /dev/null || missing="$missing ${pair#*:}"
done
[ -n "$missing" ] || exit 0
if [ "$(id -u)" != 0 ] || ! command -v apt-get > /dev/null; then
    echo "not installed:$missing (needs root and apt-get)"
    exit 0
fi
echo "installing:$missing"
export DEBIAN_FRONTEND=noninteractive
apt-get update -qq || true
# shellcheck disable=SC2086
apt-get install -y -qq --no-install-recommends $missing > /dev/null || echo "apt-get could not install:$missing"
