#!/bin/sh
# openmpi.sh HOSTFILE PROGRAM [ARGUMENTS]... on the first host of the file
set -eu
hostfile=$1
shift

MASTER_ADDR=$(awk '!/^ *(#|$)/ { print $1; exit }' "$hostfile")
MASTER_PORT=${MASTER_PORT:-29500}
TUTTI_JOB_KEY=$(openssl rand -hex 32)
export MASTER_ADDR MASTER_PORT TUTTI_JOB_KEY

exec mpirun --hostfile "$hostfile" -x MASTER_ADDR -x MASTER_PORT -x TUTTI_JOB_KEY "$@"
