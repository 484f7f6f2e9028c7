#!/bin/sh
# run.sh RANKS PROGRAM [ARGUMENT..]: starts a program so often on this machine, by mpirun (Open
# MPI's) where there is one, else by run_ranks. What rank N prints is in log_output/1/rank.N/stdout
# below the current folder.
set -eu
case ${1-} in -h | --help) sed -n '2,/^[^#]/s/^# \{0,1\}//p' "$0"; exit ;; esac
ranks=$1
shift
# shellcheck disable=SC2016 # each rank expands it
keep_output='out=log_output/1/rank.$PSRING_RANK && mkdir -p "$out" && exec "$0" "$@" >"$out/stdout"'
if ! command -v mpirun >/dev/null; then
    exec "$(dirname "$0")/run_ranks" "$ranks" sh -c "$keep_output" "$@"
fi
folder=$(mktemp -d "${TMPDIR:-/tmp}/run.XXXXXX")
trap 'rm -rf "$folder"' EXIT
# shellcheck disable=SC2016
place='export PSRING_RANK=$OMPI_COMM_WORLD_RANK PSRING_RANKS=$OMPI_COMM_WORLD_SIZE'
PSRING_SCHEDULER=$folder/scheduler mpirun -n "$ranks" --oversubscribe --bind-to none sh -c "$place; $keep_output" "$@"
