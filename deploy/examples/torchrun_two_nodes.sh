#!/bin/sh
# Two torchruns on this machine, as if it were two nodes. On two hosts: one line on each, node 0's
# address in the place of 127.0.0.1, and --keys DIR behind psring-worker, with a folder that psring
# keygen wrote.
#
# usage: deploy/examples/torchrun_two_nodes.sh RANKS-OF-EACH OPTION...
set -eu
case ${1-} in -h | --help) sed -n '2,/^[^#]/s/^# \{0,1\}//p' "$0"; exit ;; esac
case ${1-} in '' | 0 | *[!0-9]*) echo "usage: $0 RANKS-OF-EACH OPTION..." >&2; exit 2 ;; esac
ranks=$1
shift
node() {
    number=$1
    shift
    torchrun --no-python --nnodes 2 --node-rank "$number" --nproc-per-node "$ranks" --master-addr 127.0.0.1 \
        --master-port "${MASTER_PORT:-29500}" psring-worker "$@"
}
node 1 "$@" &
status=0
node 0 "$@" || status=$?
wait $! || status=$?
exit "$status"
