#!/bin/sh
# python3 -m torch.distributed.launch starts the ranks: torchrun's older name.
#
# usage: deploy/examples/torch_distributed_launch.sh RANKS OPTION...
#   PYTHON: another than python3, one that has torch
set -eu
case ${1-} in -h | --help) sed -n '2,/^[^#]/s/^# \{0,1\}//p' "$0"; exit ;; esac
case ${1-} in '' | 0 | *[!0-9]*) echo "usage: $0 RANKS OPTION..." >&2; exit 2 ;; esac
ranks=$1
shift
exec "${PYTHON:-python3}" -m torch.distributed.launch --use-env --no-python --nproc-per-node "$ranks" --master-addr 127.0.0.1 \
    --master-port "${MASTER_PORT:-29500}" psring-worker "$@"
