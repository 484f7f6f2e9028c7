#!/bin/sh
# A loop starts the ranks, with the variables that PyTorch's documentation names.
#
# usage: deploy/examples/shell_loop.sh RANKS OPTION...
set -eu
case ${1-} in -h | --help) sed -n '2,/^[^#]/s/^# \{0,1\}//p' "$0"; exit ;; esac
case ${1-} in '' | 0 | *[!0-9]*) echo "usage: $0 RANKS OPTION..." >&2; exit 2 ;; esac
WORLD_SIZE=$1
shift
MASTER_ADDR=127.0.0.1
MASTER_PORT=${MASTER_PORT:-29500}
export WORLD_SIZE MASTER_ADDR MASTER_PORT
LOCAL_RANK=0
pids=''
while [ "$LOCAL_RANK" -lt "$WORLD_SIZE" ]; do
    export LOCAL_RANK
    psring-worker "$@" &
    pids="$pids $!"
    LOCAL_RANK=$((LOCAL_RANK + 1))
done
status=0
for pid in $pids; do
    wait "$pid" || status=$?
done
exit "$status"
