#!/bin/sh
# Workers started by Open MPI's mpirun: one of N identical commands each. Rank 0 starts the
# scheduler, and with --mode ps the shards are beside the workers.
#
# usage: deploy/examples/openmpi.sh [OPTION of psring train]...
#   for example: RANKS=8 deploy/examples/openmpi.sh --mode ps --shards 2
#   MPIRUN  Open MPI's mpirun, with options: MPIRUN='mpirun --hostfile hosts', from a folder that
#           all hosts see
#   RANKS   how many (4)
#
# --mode mpi sums gradients by MPI itself. --bind-to none: a worker has several threads, and mpirun
# would bind all of them to one core.
# In the background: deploy/examples/openmpi.sh >train.log 2>&1 &
set -eu
case ${1-} in -h | --help) sed -n '2,/^[^#]/s/^# \{0,1\}//p' "$0"; exit ;; esac
PATH=${PSRING_BIN:+$PSRING_BIN:}$PATH
as_root=''
[ "$(id -u)" != 0 ] || as_root=--allow-run-as-root
# shellcheck disable=SC2086 # words
exec ${MPIRUN:-mpirun} $as_root -n "${RANKS:-4}" --oversubscribe --bind-to none psring-worker "$@"
