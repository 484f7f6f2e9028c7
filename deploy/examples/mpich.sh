#!/bin/sh
# Workers started by MPICH's mpirun (Hydra): as deploy/examples/openmpi.sh, but --mode mpi needs a
# psring-worker that is built with MPICH.
#
# usage: deploy/examples/mpich.sh [OPTION of psring train]...
#   for example: RANKS=8 deploy/examples/mpich.sh --mode ps --shards 2
#   MPIRUN  MPICH's mpirun, with options: MPIRUN='mpirun.mpich -f hosts', from a folder that all
#           hosts see
#   RANKS   how many (4)
set -eu
case ${1-} in -h | --help) sed -n '2,/^[^#]/s/^# \{0,1\}//p' "$0"; exit ;; esac
PATH=${PSRING_BIN:+$PSRING_BIN:}$PATH
# shellcheck disable=SC2086 # words
exec ${MPIRUN:-mpirun} -n "${RANKS:-4}" psring-worker "$@"
