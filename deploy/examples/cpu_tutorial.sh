#!/bin/sh
# ResNet-50 on CIFAR-10's binary files as tutorials for training on CPUs do it: each picture is
# padded by 4 and cropped to 32, mirrored or not, resized to 224, rescaled by 1/255 and normalised;
# SGD with momentum, every epoch shuffled anew, a share of it for each worker.
#
# usage: deploy/examples/cpu_tutorial.sh DATA WORKERS BATCH [OPTION...]
#
#   cpu_tutorial.sh /data/cifar-10-batches-bin 8 32 --epochs 90
#   cpu_tutorial.sh /data/cifar-10-batches-bin 8 4 --steps 12 --mode ring
#
# A worker takes some 3.3 GiB with a batch of 32 and 0.75 GiB with one of 4. What a host has not
# memory for is refused before the start, with what would fit. Before a run that is said by
#   psring doctor --data DATA --model resnet50 --augment crop:32:4,flip,resize:224 --batch-size 32
set -eu
case ${1-} in -h | --help) sed -n '2,/^[^#]/s/^# \{0,1\}//p' "$0"; exit ;; esac
if [ $# -lt 3 ]; then echo "usage: $0 DATA WORKERS BATCH [OPTION...]" >&2; exit 2; fi
data=$1 workers=$2 batch=$3
shift 3
exec psring train --model resnet50 --data "$data" --workers "$workers" --batch-size "$batch" \
    --augment crop:32:4,flip,resize:224 --mean 0.4465,0.4822,0.4914 --std 0.2010,0.1994,0.2023 \
    --optimizer sgd --lr 0.01 --momentum 0.9 --shuffle --drop-last "$@"
