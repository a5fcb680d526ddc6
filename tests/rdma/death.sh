#!/bin/bash
# In a guest: death.sh TRANSPORT PROGRAM
set -eu
. "$(dirname "$0")/settings.sh"
over "$1"
# Each rank sends dozens before it is killed.
moved 200 "$2" --gtest_filter='-*TheTransportItself'
# The library's own setting leaves silent peers to the control plane, which this test does without.
UCX_UD_TIMEOUT=10s moved 100 "$2" --gtest_filter='*TheTransportItself'
