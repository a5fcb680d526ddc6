#!/bin/bash
# In a guest: conformance.sh TRANSPORT PROGRAM
set -eu
. "$(dirname "$0")/settings.sh"
over "$1"
export TUTTI_TEST_SLOWNESS=20
# Of the long stream alone there are so many messages, each with a packet.
moved $((100000 / TUTTI_TEST_SLOWNESS)) "$2"
