#!/bin/sh
# One command starts all ranks of this node, with the options of PyTorch's example programs. On
# several nodes: the same on each, with its --rank, the number of nodes as --world-size, node 0's
# address as --addr, and --keys DIR.
#
# usage: deploy/examples/spawn.sh RANKS OPTION...
set -eu
case ${1-} in -h | --help) sed -n '2,/^[^#]/s/^# \{0,1\}//p' "$0"; exit ;; esac
case ${1-} in '' | 0 | *[!0-9]*) echo "usage: $0 RANKS OPTION..." >&2; exit 2 ;; esac
ranks=$1
shift
exec psring-worker --multiprocessing-distributed --nproc-per-node "$ranks" --rank 0 --world-size 1 --addr 127.0.0.1 \
    --port "${MASTER_PORT:-29500}" --dist-url env:// "$@"
