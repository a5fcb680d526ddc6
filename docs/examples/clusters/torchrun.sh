#!/bin/sh
# torchrun.sh FIRST_HOST HOSTS NUMBER RANKS PROGRAM [ARGUMENTS]...
# on each of HOSTS hosts, whose NUMBER is 0 on the first; starts RANKS ranks there
set -eu
first=$1 hosts=$2 number=$3 ranks=$4
shift 4

TUTTI_JOB_KEY=$(cat job.key)
export TUTTI_JOB_KEY

exec torchrun --nnodes "$hosts" --node_rank "$number" --nproc_per_node "$ranks" \
  --master_addr "$first" --master_port "${MASTER_PORT:-29500}" --no_python "$@"
