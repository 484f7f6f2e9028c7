#!/bin/sh
# PyTorch's torchrun starts the ranks, and tells each its place by RANK, WORLD_SIZE and others.
#
# usage: deploy/examples/torchrun.sh RANKS OPTION...
#   psring-worker and torchrun in PATH; MASTER_PORT: another than 29500
set -eu
case ${1-} in -h | --help) sed -n '2,/^[^#]/s/^# \{0,1\}//p' "$0"; exit ;; esac
case ${1-} in '' | 0 | *[!0-9]*) echo "usage: $0 RANKS OPTION..." >&2; exit 2 ;; esac
ranks=$1
shift
exec torchrun --no-python --nproc-per-node "$ranks" --master-addr 127.0.0.1 --master-port "${MASTER_PORT:-29500}" psring-worker "$@"
