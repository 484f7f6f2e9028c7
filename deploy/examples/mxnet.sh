#!/bin/sh
# The processes of MXNet's parameter server, each told its role: a scheduler, servers, workers.
# Without servers the workers are a ring.
#
# usage: deploy/examples/mxnet.sh WORKERS SERVERS OPTION...
#   DMLC_PS_ROOT_PORT: another than 9091
set -eu
case ${1-} in -h | --help) sed -n '2,/^[^#]/s/^# \{0,1\}//p' "$0"; exit ;; esac
for number in "${1-}" "${2-}"; do
    case $number in '' | *[!0-9]*) echo "usage: $0 WORKERS SERVERS OPTION..." >&2; exit 2 ;; esac
done
DMLC_NUM_WORKER=$1
DMLC_NUM_SERVER=$2
shift 2
DMLC_PS_ROOT_URI=127.0.0.1
DMLC_PS_ROOT_PORT=${DMLC_PS_ROOT_PORT:-9091}
export DMLC_NUM_WORKER DMLC_NUM_SERVER DMLC_PS_ROOT_URI DMLC_PS_ROOT_PORT
pids=''
start() {
    role=$1
    count=$2
    shift 2
    while [ "$count" -gt 0 ]; do
        DMLC_ROLE=$role psring-worker "$@" &
        pids="$pids $!"
        count=$((count - 1))
    done
}
start scheduler 1 "$@"
start server "$DMLC_NUM_SERVER" "$@"
start worker "$DMLC_NUM_WORKER" "$@"
status=0
for pid in $pids; do
    wait "$pid" || status=$?
done
exit "$status"
