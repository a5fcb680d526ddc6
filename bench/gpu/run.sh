#!/usr/bin/env bash
# What a GPU can tell, in one call: bench/gpu/run.sh [--seconds N] [--out FOLDER]
# [--build FOLDER] [--only checks|speed] [--parts PATTERN] [--emulated] [--write-golden]; or --pack FOLDER;
# or --help.
#
# It builds nothing: `cmake --build build --target gpu_bench` does, on any machine with the toolkit.
# --pack copies what is run here to a folder, without symbols, this script with it, and makes an
# archive of it, FOLDER.tar.xz, which is carried to the GPU; unpacked, FOLDER/bench/gpu/run.sh needs
# nothing else there but a libstdc++ that is no older. What needs PyTorch uses python3's.
#
# Each part has its share of the N seconds (540): checks come first, and what they leave is for what is
# measured, products against cuBLAS, attention and trainings against PyTorch, and what memory bounds
# against a copy; --only is for two calls where one is too short, and --parts for the checks whose whole
# names match an extended regular expression. A test that says nothing for 30 seconds, or that ends its
# program, has failed, and those behind it are run all the same. The report is FOLDER/report.md and
# standard output: of each part whether it passed, failed or did not run, and at its end what is not
# covered. The exit status is 1 if a check has failed, 2 without a GPU. --emulated runs what can be run on
# the emulation (of one device, with TUTTI_EMULATION_DEVICES=1), to try out this script: its programs are
# the tests of the same names and the target tutti_emulated.
set -u
here=$PWD
cd "$(dirname "$0")/../.."

seconds=540 out=gpu-report build=build emulated= golden= pack= only= parts=
if [ -f commit ]; then build=.; fi  # this is a packed folder
while [ $# -gt 0 ]; do
  case $1 in --seconds|--out|--build|--pack|--only|--parts)
    [ $# -gt 1 ] || { echo "run.sh: $1 lacks what it is about" >&2; exit 2; } ;;
  esac
  case $1 in
    --seconds) seconds=$2; shift ;;
    --out) out=$2; shift ;;
    --build) case $2 in /*) build=$2 ;; *) build=$here/$2 ;; esac; shift ;;
    --only) case $2 in checks|speed) only=$2 ;; *) echo "run.sh: --only $2 is neither checks nor speed" >&2; exit 2 ;; esac; shift ;;
    --parts) parts=$2; shift ;;
    --emulated) emulated=1 ;;
    --write-golden) golden=--write-golden ;;
    --pack) pack=$2; shift ;;
    --help) sed -n '2,/^[^#]/s/^# \{0,1\}//p' bench/gpu/run.sh; exit ;;
    *) echo "run.sh: $1 is none of --seconds, --out, --build, --only, --parts, --emulated, --write-golden, --pack, --help" >&2; exit 2 ;;
  esac
  shift
done
case $build in /*) ;; *) build=$PWD/$build ;; esac
case $out in /*) ;; *) out=$here/$out ;; esac
case $seconds in *[!0-9]*|'') echo "run.sh: --seconds $seconds is no number" >&2; exit 2 ;; esac

# What the programs need beside the C library, UCX among it, may not be there: it is carried too.
if [ -n "$pack" ]; then
  case $pack in /*) ;; *) pack=$here/$pack ;; esac
  mkdir -p "$pack/bin" "$pack/lib" "$pack/tests/emulation" "$pack/needed" "$pack/bench/gpu" &&
    cp -r "$build/bin/gpu" "$pack/bin/" && cp -r tests/emulation/golden "$pack/tests/emulation/" &&
    cp bench/gpu/run.sh bench/gpu/*.py "$pack/bench/gpu/" &&
    cp "$build"/bin/tutti "$build"/bin/train_gpt "$build"/bin/cuda_conformance_sm* "$pack/bin/" &&
    cp -P "$build"/bin/*_perf "$pack/bin/" && cp "$build/tests/runtime_test_on_gpu" "$pack/tests/" &&
    cp -P "$build"/lib/libnccl.so* "$pack/lib/" || exit 1
  ucx=$(ldconfig -p | awk '/libucp.so.0/ { print $NF; exit }')
  if [ -n "$ucx" ]; then
    mkdir -p "$pack/needed/ucx" && cp -L "$(dirname "$ucx")"/libuc[pstm].so.0 "$pack/needed/" &&
      cp -L "$(dirname "$ucx")"/ucx/*.so.0 "$pack/needed/ucx/"
  fi
  find "$pack" -type f \( -perm -100 -o -name '*.so*' \) -exec ldd {} + 2>/dev/null |
    awk '$2 == "=>" && $3 ~ /^\// { print $3 }' | sort -u |
    grep -vE "/(libc|libm|libdl|librt|libpthread|libstdc\+\+|libgcc_s|libuc[pstm])\.so|^$build/" | xargs -I{} cp -L {} "$pack/needed/"
  find "$pack" -type f -exec strip {} + 2>/dev/null
  git describe --always --dirty >"$pack/commit"
  # Programs share most of their code: a dictionary that spans several finds it.
  XZ_OPT='--threads=0 --lzma2=preset=2,dict=64MiB' \
    tar -cJf "$pack.tar.xz" -C "$(dirname "$pack")" "$(basename "$pack")" || exit 1
  du -sm "$pack" "$pack.tar.xz" | awk '{ print "run.sh: " $2 " has " $1 " MiB" }'
  exit
fi

report=$out/report.md
began=$(date +%s) failures=0 uncovered=() asked=
say() { echo "$*" | tee -a "$report"; }
left() { echo $((seconds - $(date +%s) + began)); }
within() {  # what time is left
  local rest
  rest=$(left)
  timeout $((rest > 1 ? rest : 1)) "$@"
}

if [ -n "$emulated" ]; then
  programs=$build/tests/emulated tests=$build/tests device=emulated gpus=${TUTTI_EMULATION_DEVICES:-4}
  libraries=$build/tests/emulated
  tune=("$programs/tune_gemm" --repeats 1 --out "$out/gemm_table.txt" 100x100x200:nt)
else
  programs=$build/bin tests=$build/bin/gpu device=cuda
  libraries=$build/lib:$build/needed:${CUDA_HOME:-/usr/local/cuda}/lib64
  if [ -d "$build/needed" ]; then export LD_LIBRARY_PATH=$build/needed${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}; fi
  tune=("$tests/tune_gemm" --out "$out/gemm_table.txt")
  gpus=$(nvidia-smi -L 2>/dev/null | grep -c '^GPU ')
  if [ "$gpus" = 0 ]; then echo "run.sh: nvidia-smi shows no GPU" >&2; exit 2; fi
fi
mkdir -p "$out"
: >"$report"
# Ranks as threads on one GPU wait for each other there, and their streams must not share queues.
export CUDA_DEVICE_MAX_CONNECTIONS=32
# Seconds of a test, or of a C program's case: one that hangs must not take what others need.
silence=${TUTTI_TEST_CASE_SECONDS:-$([ -n "$emulated" ] && echo 120 || echo 30)}
export TUTTI_TEST_CASE_SECONDS=$silence
PATH=$PATH:${CUDA_HOME:-/usr/local/cuda}/bin  # of compute-sanitizer
# What a program writes to a file waits for company otherwise: it would be silent, and lost when it is ended.
lineByLine=$(command -v stdbuf >/dev/null && echo stdbuf -oL)

# wanted NAME: whether the part was asked for.
wanted() {
  [ "$only" != speed ] && { [ -z "$parts" ] || [[ $1 =~ ^($parts)$ ]]; } && asked=1
}

# leave NAME WHY [DETAIL]: a part that is not run.
leave() {
  wanted "$1" || return 0
  say "| $1 | not run: $2 | ${3:-} |"
  uncovered+=("$1: $2")
}

# whyOf FILE: what a program that failed has said of it. Tests of failures print errors that are none.
whyOf() {
  { sed -nE 's/^\[  FAILED  \] ([^ ,]*\.[^ ,]*).*/\1/p; s/^FAIL //p' "$1" | sort -u | paste -sd' ' | grep . ||
      grep -iE 'error|fail|not so' "$1" || tail -n 1 "$1"; } | head -n 1 | tr '|' '/' | cut -c1-160
}

# part NAME SECONDS COMMAND...: runs it, keeps its output in a file, and says how it has ended.
part() {
  check once "$@"
}

# tests NAME SECONDS COMMAND...: the same of GoogleTest's programs. When one of its tests ends the program, or
# says nothing for so long that it never will, the others are run without it.
tests() {
  check eachTest "$@"
}

# once FILE SECONDS COMMAND...
once() {
  local file=$1
  shift
  timeout "$@" >"$file" 2>&1 </dev/null
}

# eachTest FILE SECONDS COMMAND...
eachTest() {
  local file=$1 end=$(($(date +%s) + $2)) begun= known result=0 status
  shift 2
  : >"$file"
  while [ "$(date +%s)" -lt $end ]; do
    untilSilent "$file" $((end - $(date +%s))) "$@" ${begun:+"--gtest_filter=-$begun"}
    status=$?
    [ $status = 0 ] || result=$status
    [ "$(date +%s)" -lt $end ] || return 124
    known=$begun
    begun=$(sed -n 's/^\[ RUN      \] //p' "$file" | paste -sd:)
    if tail -n 30 "$file" | grep -q '^\[==========\] .* ran\.' || [ "$begun" = "$known" ]; then return $result; fi
    echo "[  FAILED  ] ${begun##*:}" >>"$file"
    [ $result != 0 ] || result=1
  done
  return 124
}

# untilSilent FILE SECONDS COMMAND...: adds what it says to the file, line by line, and ends it when it says
# nothing more.
untilSilent() {
  local file=$1 limit=$2 pid size=-1 now since
  shift 2
  timeout -k 5 "$limit" $lineByLine "$@" >>"$file" 2>&1 </dev/null &
  pid=$!
  while kill -0 $pid 2>/dev/null; do
    now=$(stat -c %s "$file")
    if [ "$now" != $size ]; then size=$now since=$(date +%s); fi
    if [ $(($(date +%s) - since)) -ge $silence ]; then
      echo "run.sh: it has said nothing for $silence s" >>"$file"
      howItStands $pid >>"$file" 2>/dev/null
      kill $pid
      break
    fi
    sleep 0.2
  done
  wait $pid
}

# howItStands GROUP: is it slow, or does it wait for ever? Of each thread of its processes the number, name,
# state and ticks of the processor, for the program and the system, and where it waits there; and whether
# the GPU is busy.
howItStands() {
  local task
  for task in $(grep -lE "^[0-9]+ \(.*\) [A-Z] [0-9]+ $1 " /proc/[0-9]*/task/[0-9]*/stat); do
    echo "run.sh: $(sed -E 's/^(.*\) [A-Z]) .*/\1/' "$task") $(sed 's/.*) //' "$task" | cut -d' ' -f12,13) $(cat "${task%/stat}/wchan")"
  done
  [ -n "$emulated" ] || echo "run.sh: the GPU is busy for $(nvidia-smi --query-gpu=utilization.gpu --format=csv,noheader | paste -sd,)"
}

# underWay FILE: the test that a program had begun last, if it has not said how that ended.
underWay() {
  sed -nE 's/^\[ RUN      \] //p' "$1" | tail -n 1 | while read -r test; do
    grep -qF -e "[       OK ] $test" -e "[  FAILED  ] $test" -e "[  SKIPPED ] $test" "$1" || echo ", in $test"
  done
}

# skippedIn FILE: a line for each reason for which tests of GoogleTest have skipped: the reason, and the tests.
skippedIn() {
  awk '
    BEGIN { why = "no reason" }
    reads { why = $0; reads = 0 }
    /: Skipped$/ { reads = 1 }
    /^\[  SKIPPED \] [^ ]+[.].* \(/ { tests[why] = tests[why] " " $4; why = "no reason" }
    END { for (each in tests) print each ":" tests[each] }' "$1" | sort
}

# check HOW NAME SECONDS COMMAND...
check() {
  local how=$1 name=$2 limit=$3 rest status start why skipped=()
  shift 3
  wanted "$name" || return 0
  if [ -n "$emulated" ]; then limit=$((4 * limit)); fi
  rest=$(left)
  if [ "$rest" -lt 5 ]; then leave "$name" "no time left"; return 0; fi
  if ! command -v "$1" >/dev/null; then leave "$name" "there is no ${1##*/}"; return 0; fi
  start=$(date +%s)
  $how "$out/$name.txt" $((limit < rest ? limit : rest)) "$@"
  status=$?
  mapfile -t skipped < <(skippedIn "$out/$name.txt")
  for why in "${skipped[@]}"; do uncovered+=("$name: skipped, $why"); done
  if [ $status = 124 ] && [ "$rest" -lt "$limit" ]; then
    if grep -qE '^(\[  FAILED  \]|FAIL) ' "$out/$name.txt"; then
      failures=$((failures + 1))
      say "| $name | **failed**, and not done: no time left | $(whyOf "$out/$name.txt") |"
    else
      say "| $name | not done: no time left | |"
    fi
    uncovered+=("$name: no time left, after $rest s of its $limit$(underWay "$out/$name.txt")")
  elif [ $status = 0 ]; then
    say "| $name | passed | $(($(date +%s) - start)) s${skipped:+, but for what was skipped} |"
  else
    failures=$((failures + 1))
    why=$(whyOf "$out/$name.txt")
    if [ $status = 124 ]; then why="it did not end within $limit s$(underWay "$out/$name.txt"). $why"; fi
    say "| $name | **failed** (status $status) | $why |"
  fi
}

say "# Report of bench/gpu/run.sh"
say
say "- date: $(date -u '+%F %H:%M UTC'); commit: $(cat "$build/commit" 2>/dev/null || git describe --always --dirty 2>/dev/null || echo unknown)"
if [ -n "$emulated" ]; then
  say "- hardware: none, the emulation: times say nothing"
else
  say "- hardware: $(nvidia-smi --query-gpu=name,driver_version,memory.total,compute_mode --format=csv,noheader | sort | uniq -c | tr '\n' ';')"
fi
say
[ "$only" != speed ] || uncovered+=("checks: --only speed")
[ -z "$parts" ] || uncovered+=("checks: --parts leaves out all but $parts")
say "| part | result | |"
say "|---|---|---|"

# Instructions and the runtime: is the emulation right about them?
if [ -z "$emulated" ]; then
  tests conformance_sm80 60 "$build/bin/cuda_conformance_sm80" --golden=tests/emulation/golden/sm80.txt $golden
  tests conformance_sm90 60 "$build/bin/cuda_conformance_sm90" --golden=tests/emulation/golden/sm90.txt $golden
  tests runtime 60 "$build/tests/runtime_test_on_gpu"
else
  for name in conformance_sm80 conformance_sm90 runtime; do leave "$name" "it is about a GPU"; done
fi

# Streams, events and memory, as the library has them.
tests device 60 "$tests/cuda_device_test"

# Collectives, with several ranks on one GPU: what connects them and runs plans there, and communicators.
for test in cuda_interpreter cuda_launches cuda_exchange cuda_slices cuda_proxy copy_plans copy_exchange copy_faults \
  copy_processes; do
  tests "executor_$test" 60 "$tests/${test}_test"
done
if [ "$gpus" -lt 3 ]; then
  leave executor_cuda_processes "its ranks are three processes with a GPU each"
else
  tests executor_cuda_processes 60 "$tests/cuda_processes_test"
fi
tests communicator 90 "$tests/gpu_communicator_test"
tests communicator_blocks 60 "$tests/gpu_blocks_test"
tests communicator_shrink 60 "$tests/gpu_shrink_test"
tests communicator_processes 90 "$tests/gpu_processes_test"
tests communicator_hosts 90 "$tests/gpu_hosts_test"
if [ -n "$emulated" ]; then
  # However many devices the rest has: these are about several.
  TUTTI_EMULATION_DEVICES=4 tests communicator_probe 60 "$tests/gpu_probe_test"
  TUTTI_EMULATION_DEVICES=4 tests communicator_failures 60 "$tests/gpu_failures_test"
  tests communicator_allocations 60 "$tests/gpu_allocations_test"
  TUTTI_GPU_DIRECT=1 tests communicator_direct 90 "$tests/gpu_hosts_test"
else
  leave communicator_probe "no GPU lies to another when it is asked to"
  leave communicator_failures "CUDA refuses no call when it is asked to"
  leave communicator_allocations "what set-up allocates and how many kernels a group is, the emulation counts"
  leave communicator_direct "the networks of these tests do not reach a GPU's memory"
fi
LD_LIBRARY_PATH=$libraries part nccl_programs 90 "$tests/nccl_gpu"
collectives="all_reduce all_gather reduce_scatter broadcast reduce alltoall sendrecv gather scatter alltoallv"
for ranks in 2 4 8; do
  for collective in $collectives hypercube; do
    part "threads_${ranks}_$collective" 30 "$programs/${collective}_perf" -t "$ranks" -g 1 \
      -b 8 -e 1M -f 32 -n 3 -w 1 --device $device
  done
  for collective in $collectives; do
    part "processes_${ranks}_$collective" 30 "$programs/tutti" perf $collective -n "$ranks" -b 8 -e 1M -f 32 \
      --iters 3 -w 1 --device $device
  done
done
if [ -z "$emulated" ]; then
  part memcheck 30 compute-sanitizer --tool memcheck --error-exitcode 9 \
    "$programs/all_reduce_perf" -t 2 -g 1 -b 8 -e 64K -f 16 -n 1 -w 0 --device $device
  part racecheck 30 compute-sanitizer --tool racecheck --error-exitcode 9 \
    "$programs/all_reduce_perf" -t 2 -g 1 -b 8 -e 64K -f 64 -n 1 -w 0 --device $device
else
  for name in memcheck racecheck; do leave "$name" "compute-sanitizer is for GPUs"; done
fi
if ! python3 -c 'import torch' 2>/dev/null; then
  leave torch "no PyTorch"
elif [ -n "$emulated" ]; then
  part torch_script 120 python3 -m torch.distributed.run --nproc-per-node 2 bench/gpu/torch_collectives.py --on-cpu
elif ! lacks=$(LD_PRELOAD=$build/lib/libnccl.so.2 python3 -c 'import torch' 2>&1); then
  leave torch "this PyTorch wants a later NCCL than libnccl.so.2 is" "$(tail -1 <<<"$lacks" | cut -c1-160)"
else
  part torch 120 env LD_PRELOAD="$build/lib/libnccl.so.2" python3 -m torch.distributed.run \
    --nproc-per-node 2 bench/gpu/torch_collectives.py
fi

# Kernels of training, against the host's.
for test in kernels kernels_without_rows narrow_types epilogue gemm_batch kernels_against_host kernel_calls attention attention_calls vectorized; do
  tests "training_$test" 60 "$tests/cuda_${test}_test"
done
tests training_sequences 60 "$tests/device_sequences_test"
tests training 120 "$tests/device_training_test"
if [ "$gpus" -gt 1 ] && [ -n "$emulated" ]; then
  tests training_offload 60 "$tests/device_offload_test"
else
  leave training_offload "its ranks want two GPUs, and nothing has been tried on them"
fi

for test in gemm gemm_calls; do
  tests "training_$test" 60 "$tests/cuda_${test}_test"
done
part tune_gemm 90 "${tune[@]}"
leave others "cuda_proxy_processes, copy_probe, copy_lanes, copy_queues, gpu_hosts_flushes, gpu_hosts_cut, device_mesh, \
device_attention, cuda_gradcheck and the samples' tests have run on emulated GPUs alone (docs/benchmarks/h200.md)"

# Bandwidth and latency, against what this GPU copies and against NCCL.
say
say "Speed:"
say
# unmeasured WHAT WHY
unmeasured() {
  say "- $1: not measured: $2"
  uncovered+=("$1: $2")
}
copy=
if [ "$only" = checks ]; then
  unmeasured "speed" "--only checks"
elif [ -n "$emulated" ]; then
  unmeasured "device-to-device copy" "no GPU"
elif copy=$(within "$build/bin/gpu/copy_bandwidth" 256 2>"$out/copy_bandwidth.txt") && [ -n "$copy" ]; then
  say "- device-to-device copy of 256 MiB, bytes read plus written: $copy GB/s"
else
  unmeasured "device-to-device copy" "$(tail -1 "$out/copy_bandwidth.txt")"
fi
timeOf() {  # a perf program's out-of-place time in microseconds, of the first size; nothing of what was wrong
  within "$@" 2>>"$out/speed.txt" | awk -v called="$*" '
    /^ *[0-9]/ {
      if (isRead++) next
      if ($(NF == 13 ? 9 : 10) + $NF == 0) print $6
      else print called ": wrong: " $0 >>"'"$out"'/speed.txt"
    }'
}
ofCopy() {  # MICROSECONDS BYTES: what was moved in a second, and how much of the copy that is
  awk -v us="${1:-0}" -v bytes="$2" -v copy="${copy:-0}" 'BEGIN {
    if (us > 0 && copy > 0) printf "%.1f GB/s, %.0f%% of the copy", bytes / us / 1e3, bytes / us / 10 / copy }'
}
large=$([ -n "$emulated" ] && echo 64K || echo 256M)
bytes=$([ -n "$emulated" ] && echo 65536 || echo 268435456)
for ranks in 2 4 8; do
  [ "$only" != checks ] || break
  [ "$(left)" -gt 10 ] || { unmeasured "$ranks ranks on one GPU" "no time left"; continue; }
  us=$(timeOf "$programs/all_reduce_perf" -t "$ranks" -g 1 -b $large -e $large -n 20 -w 5 -c 1 --device $device)
  small=$(timeOf "$programs/all_reduce_perf" -t "$ranks" -g 1 -b 8 -e 8 -n 100 -w 20 -c 0 --device $device)
  graphs=$(timeOf "$programs/all_reduce_perf" -t "$ranks" -g 1 -b 8 -e 8 -n 20 -G 20 -w 5 -c 0 --device $device)
  if [ -z "$us" ] || [ -z "$small" ] || [ -z "$graphs" ]; then
    if [ "$(left)" -le 1 ]; then unmeasured "$ranks ranks on one GPU" "no time left"; continue; fi
    failures=$((failures + 1))
    say "- $ranks ranks on one GPU: **failed**: $(tail -1 "$out/speed.txt")"
    continue
  fi
  share=$(ofCopy "$us" $((2 * ranks * bytes)))
  say "- $ranks ranks on one GPU: AllReduce of $large in $us us${share:+, $share}; of 8 bytes in $small us, $graphs us in a graph of 20"
done

# Every collective of four ranks, by kernels of threads and by copies of processes: S bytes are moved S times as a
# result or an input is read, and again as it is written.
if [ "$only" != checks ]; then
  say
  say "| $large, 4 ranks on one GPU | threads, us | | processes, us | |"
  say "|---|---|---|---|---|"
  for each in all_reduce:8 all_gather:8 reduce_scatter:5 broadcast:8 reduce:5 alltoall:8 sendrecv:8 gather:2 scatter:2; do
    collective=${each%:*} moved=$((${each#*:} * bytes)) row=
    for how in threads processes; do
      if [ "$(left)" -le 10 ]; then unmeasured "$collective of four $how" "no time left"; row+=' | | |'; continue; fi
      if [ $how = threads ]; then
        us=$(timeOf "$programs/${collective}_perf" -t 4 -g 1 -b $large -e $large -n 10 -w 3 -c 0 --device $device)
      else
        us=$(timeOf "$programs/tutti" perf $collective -n 4 -b $large -e $large --iters 10 -w 3 -c 0 --device $device)
      fi
      if [ -z "$us" ] && [ "$(left)" -gt 1 ]; then
        failures=$((failures + 1))
        us="**failed**: $(tail -1 "$out/speed.txt" | tr '|' '/' | cut -c1-100)" row+=" $us | |"
      else
        row+=" $us | $(ofCopy "$us" $moved) |"
      fi
    done
    say "| $collective |$row"
  done
  say
fi
# PyTorch's wheels have NCCL and cuBLAS.
inWheels() {  # the first file of NVIDIA's wheels whose path ends so
  python3 -c 'import glob, nvidia, sys
for path in nvidia.__path__:
    for file in glob.glob(path + "/" + sys.argv[1]):
        print(file)' "$1" 2>/dev/null | head -n 1
}

# speedBy FOLDERS NAME: nccl_speed by the libnccl.so.2 there, added to a file of that name.
speedBy() {
  LD_LIBRARY_PATH=$1 within "$nccl_speed" "${ncclSizes[@]}" >>"$out/$2.txt" 2>"$out/$2.errors.txt" && return
  if [ "$(left)" -le 1 ]; then unmeasured "against NCCL, the rest" "no time left"; return 1; fi
  failures=$((failures + 1))
  say "- nccl_speed by $2: **failed**: $(tail -n 1 "$out/$2.errors.txt")"
  return 1
}
ncclSizes=() nccl_speed=$build/bin/gpu/nccl_speed
if [ -n "$emulated" ]; then
  ncclSizes=(4096 2) nccl_speed=$programs/nccl_speed theirs=$programs/libnccl.so.2  # NCCL is played by Tutti
else
  theirs=$(inWheels 'nccl/lib/libnccl.so.2')
  [ -n "$theirs" ] || theirs=$(ldconfig -p | awk '/libnccl.so.2/ { print $NF; exit }')
fi
if [ "$only" = checks ]; then
  :
elif [ "$gpus" -lt 2 ]; then
  unmeasured "against NCCL" "it needs two GPUs, and there are $gpus"
elif [ "$(left)" -lt 15 ]; then
  unmeasured "against NCCL" "no time left"
else
  rm -f "$out"/nccl_speed_by_*.txt
  for turn in 1 2 3; do
    speedBy "$libraries" nccl_speed_by_tutti || break
    [ -z "$theirs" ] || speedBy "$(dirname "$theirs"):$libraries" nccl_speed_by_nccl || break
  done
  [ -n "$theirs" ] || unmeasured "NCCL beside Tutti" "there is no libnccl.so.2"
  say "- collectives over $gpus GPUs by Tutti and by ${theirs:-nobody else}, in turn, medians of three:"
  say
  while IFS= read -r line; do say "$line"; done < <(awk '
    function median(key,  a, n, i, j, t) {
      n = split(times[key], a, " ")
      for (i = 2; i <= n; ++i)
        for (j = i; j > 1 && a[j - 1] + 0 > a[j] + 0; --j) { t = a[j]; a[j] = a[j - 1]; a[j - 1] = t }
      return n ? a[int((n + 1) / 2)] : 0
    }
    { key = $1 " | " $2; times[FILENAME, key] = times[FILENAME, key] " " $3 }
    FILENAME == ARGV[1] && !(key in seen) { seen[key] = 1; keys[++count] = key }
    END {
      print "| collective | bytes | Tutti, us | NCCL, us | NCCL over Tutti |"
      print "|---|---|---|---|---|"
      for (i = 1; i <= count; ++i) {
        ours = median(ARGV[1] SUBSEP keys[i]); nccl = median(ARGV[2] SUBSEP keys[i])
        printf "| %s | %.1f | %s | %s |\n", keys[i], ours, nccl ? sprintf("%.1f", nccl) : "",
          nccl && ours ? sprintf("%.2f", nccl / ours) : ""
      }
    }' "$out/nccl_speed_by_tutti.txt" $([ ! -s "$out/nccl_speed_by_nccl.txt" ] || echo "$out/nccl_speed_by_nccl.txt"))
fi

# measure NAME SHARE COMMAND...: a program that gets --seconds, so many hundredths of all; what it says goes into
# the report, and what it says that it has not measured to the end of that, too.
measure() {
  local name=$1 share=$2 rest line status limit
  shift 2
  [ "$only" != checks ] || return 0
  rest=$(left) limit=$((seconds * share / 100))
  if [ "$rest" -lt 15 ]; then unmeasured "$name" "no time left"; return 0; fi
  if [ "$limit" -gt $((rest - 10)) ]; then limit=$((rest - 10)); fi
  timeout $((limit + 60 < rest ? limit + 60 : rest)) "$@" --seconds "$limit" >"$out/$name.txt" 2>"$out/$name.errors.txt" </dev/null
  status=$?
  say
  while IFS= read -r line; do
    case $line in
      '|'*|'') say "$line" ;;
      *': not measured: '*) say "- $line"; uncovered+=("$line") ;;
      *) say "- $line" ;;
    esac
  done <"$out/$name.txt"
  if [ $status = 124 ] && [ "$(left)" -le 1 ]; then unmeasured "$name, the rest" "no time left"; return 0; fi
  [ $status != 0 ] || return 0
  failures=$((failures + 1))
  say "- $name: **failed** (status $status): $(grep -v '^$' "$out/$name.errors.txt" | tail -n 1 | cut -c1-300)"
}

# Kernels and trainings. cuBLAS is the toolkit's, or that of PyTorch's wheels.
wheel=$(inWheels '*/lib/libcublas.so.*')
if [ -n "$emulated" ]; then
  measure gemm 12 "$programs/gemm_speed" --turns 1 --cublas "$programs/libstand_in_cublas.so" 40x72x64:forward \
    33x40x70:dgrad 64x24x100:wgrad 3*40x72x64:forward 40x72x64:gelu
  attention=(--turns 1 1x2x64x70:causal 1x1x128x65:all)
  short=(--turns 1 1x2x64x71:causal) long=(1x2x128x200:all) tall=(--turns 1 1x2x64x200:causal)
  measure memory 6 "$programs/memory_speed" --turns 1 --rows 32 --width 64 --context 16 --vocabulary 100 --copy 0.01
  training=("$programs/train_gpt" --tiny --device emulated --turns 1 --steps 6)
else
  LD_LIBRARY_PATH=${LD_LIBRARY_PATH:+$LD_LIBRARY_PATH:}${CUDA_HOME:-/usr/local/cuda}/lib64${wheel:+:$(dirname "$wheel")} \
    measure gemm 12 "$tests/gemm_speed"
  attention=()
  short=(16x32x64x1024:causal 16x16x128x1024:all 8x16x128x2048:all 32x32x64x512:causal)
  long=(2x16x128x8192:causal 2x32x64x8192:causal)
  tall=(16x32x64x1024:causal 16x32x64x1024:all 32x32x64x512:causal 2x32x64x8192:causal)
  measure memory 6 "$tests/memory_speed"
  training=("$programs/train_gpt")
fi
attend=("$([ -n "$emulated" ] && echo "$programs" || echo "$tests")/attention_speed")
if ! command -v python3 >/dev/null; then
  [ "$only" = checks ] || unmeasured "attention against PyTorch" "there is no python3"
elif ! python3 -c 'import torch' 2>/dev/null; then
  [ "$only" = checks ] || unmeasured "attention against PyTorch" "no PyTorch"
else
  attend=(python3 bench/gpu/torch_attention.py "${attend[@]}" ${emulated:+--on-cpu})
fi
measure attention 10 "${attend[@]}" "${attention[@]}"
if [ "$only" != checks ]; then say; say "AttentionForward of short sequences by blocks that stay, TUTTI_ATTENTION=persistent:"; fi
TUTTI_ATTENTION=persistent measure attention_persistent 4 "${attend[@]}" "${short[@]}"
if [ "$only" != checks ]; then say; say "The same, and long ones, with a backward of one pass, TUTTI_ATTENTION=onepass:"; fi
TUTTI_ATTENTION=onepass measure attention_onepass 6 "${attend[@]}" "${short[@]}" "${long[@]}"
if [ "$only" != checks ]; then say; say "Heads of 64 columns by tiles of 192 queries, TUTTI_ATTENTION=tall:"; fi
TUTTI_ATTENTION=tall measure attention_tall 4 "${attend[@]}" "${tall[@]}"
if ! command -v python3 >/dev/null; then
  [ "$only" = checks ] || unmeasured training "there is no python3"
else
  measure training 50 python3 bench/gpu/train_speed.py "${training[@]}" --out "$out"
fi

# A mistake would look like a machine on which nothing fails.
if [ -n "$parts" ] && [ "$only" != speed ] && [ -z "$asked" ]; then
  say
  say "No part has a name that --parts asks for: $parts"
  failures=$((failures + 1))
fi
say
say "Not covered:"
say
[ ${#uncovered[@]} -gt 0 ] || say "- nothing that this script knows of"
for each in "${uncovered[@]}"; do say "- $each"; done
say
say "Checks that failed: $failures. Took $(($(date +%s) - began)) s of $seconds."
[ $failures = 0 ]
