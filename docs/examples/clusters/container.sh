#!/bin/sh
# container.sh IMAGE HOSTS NUMBER RANKS PROGRAM [ARGUMENTS]...
# on each of HOSTS hosts, whose NUMBER is 0 on the first, beside ranks.sh; starts RANKS ranks there
# TUTTI_ADDRESS is host:port of rank 0
set -eu
: "${TUTTI_ADDRESS:?host:port of rank 0}"
image=$1
shift

TUTTI_JOB_KEY=$(cat job.key)
export TUTTI_JOB_KEY

exec docker run --rm --network host --ulimit memlock=-1 --env TUTTI_ADDRESS --env TUTTI_JOB_KEY \
  --volume "$PWD:/data" --workdir /data "$image" ./ranks.sh "$@"
