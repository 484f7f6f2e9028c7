#!/bin/bash
# One scheduler and eight workers by MindSpore's variables, as the run.sh of its documentation. What
# each says is in scheduler.txt and worker_0.txt .. worker_7.txt; the loss of each step is in the
# workers'. With MS_SERVER_NUM set, so many parameter servers (pserver_0.txt ..) hold the weights;
# without, the workers are a ring.
#
# usage: deploy/examples/mindspore/run.sh DATA_PATH [OPTION...]
#   MS_WORKER_NUM: another than 8; MS_SCHED_PORT: another than 8118
set -eu
case ${1-} in -h | --help) sed -n '2,/^[^#]/s/^# \{0,1\}//p' "$0"; exit ;; esac
[ $# -ge 1 ] || { echo "usage: $0 DATA_PATH [OPTION...]" >&2; exit 2; }
export DATA_PATH=$1
shift
export MS_WORKER_NUM=${MS_WORKER_NUM:-8}
export MS_SCHED_HOST=${MS_SCHED_HOST:-127.0.0.1}
export MS_SCHED_PORT=${MS_SCHED_PORT:-8118}
pids=()
start() { # ROLE FILE OPTION...
    local role=$1 file=$2
    shift 2
    MS_ROLE=$role psring-worker --log-every 1 "$@" >"$file" 2>&1 &
    pids+=($!)
    echo "$file: process $!"
}
start MS_SCHED scheduler.txt "$@"
for ((i = 0; i < ${MS_SERVER_NUM:-0}; i++)); do
    start MS_PSERVER "pserver_$i.txt" "$@"
done
for ((i = 0; i < MS_WORKER_NUM; i++)); do
    start MS_WORKER "worker_$i.txt" "$@"
done
status=0
for pid in "${pids[@]}"; do
    wait "$pid" || status=$?
done
exit "$status"
