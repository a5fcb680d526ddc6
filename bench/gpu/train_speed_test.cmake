# train_speed.py on tiny models: ours alone; against what stands in for PyTorch, a program that repeats our metrics;
# and against one whose losses are others, which must fail. The random numbers that say which windows of a text come
# are those of the library: known answers of Philox (Salmon et al., Random123) and a permutation.

set(folder ${CMAKE_CURRENT_BINARY_DIR}/train_speed)
file(REMOVE_RECURSE ${folder})
file(MAKE_DIRECTORY ${folder})
set(command ${PYTHON} ${SOURCES}/train_speed.py ${TRAIN_GPT} --device emulated --tiny --out ${folder})

execute_process(COMMAND ${command} --python ${folder}/none --steps 5 --turns 1 --peak-flops 1e9
                OUTPUT_VARIABLE said ERROR_VARIABLE said RESULT_VARIABLE status)
foreach(part "[|] gpt2, [^\n]* [|] [0-9]+ [(][0-9.]+% MFU[)] [|] not measured [|]  [|]" "[|] llama, "
             "loss of gpt2, ours: 1: 5[.]7[0-9]+, 2: "
             "training llama against PyTorch: not measured: ${folder}/none has no PyTorch")
  if(NOT status EQUAL 0 OR NOT said MATCHES "${part}")
    message(FATAL_ERROR "no \"${part}\", status ${status}: ${said}")
  endif()
endforeach()
# The formula is that of train_gpt's metrics.
file(STRINGS ${folder}/ours_gpt2.json lines)
list(GET lines 4 line)
string(JSON mfu GET ${line} mfu)
string(JSON rate GET ${line} tokens_per_second)
execute_process(COMMAND ${PYTHON} -c "import sys, types
sys.path.insert(0, '${SOURCES}')
import training_data as d, train_speed as t
model = types.SimpleNamespace(config=d.gpt2(2, 32, 2, 300, 16), context=16)
assert abs(t.Model.flops_per_token(model) * ${rate} / 1e9 / ${mfu} - 1) < 1e-9, t.Model.flops_per_token(model)
assert d.philox((0, 0, 0, 0), (0, 0)) == [0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8]
ones = 0xffffffff
assert d.philox((ones,) * 4, (ones,) * 2) == [0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd]
assert sorted(d.permuted(1, 'epoch 0', 100, i) for i in range(100)) == list(range(100))
starts = [d.window_start(5000, 16, i) for i in range(600)]
assert 0 <= min(starts) and max(starts) + 17 <= 5000 - 250, (min(starts), max(starts))
assert 3 < t.layers_that_fit(80e9) < t.layers_that_fit(140e9) < 32

# Of which so many layers fit, or none any more behind the last.
def search(fit, first, most=32, last=99):
    tried = []
    def measure(layers):
        tried.append(layers)
        return None if len(tried) > last else layers <= fit
    return t.largest(first, most, measure), tried
for got, want in [(search(22, 20), ((22, 23), [20, 22, 24, 23])), (search(20, 20), ((20, 21), [20, 22, 21])),
                  (search(13, 20), ((13, 14), [20, 15, 11, 13, 14])), (search(40, 30), ((32, None), [30, 32])),
                  (search(32, 32), ((32, None), [32])), (search(2, 2, 3), ((2, 3), [2, 3])),
                  (search(2, 4), ((0, 3), [4, 3])), (search(1, 2), ((0, 2), [2])),
                  (search(30, 3), ((8, None), [3, 4, 5, 6, 7, 8])), (search(1, 20), ((0, 4), [20, 15, 11, 8, 6, 4])),
                  (search(30, 20, last=2), ((22, None), [20, 22, 24])), (search(30, 20, last=0), ((0, None), [20]))]:
    assert got == want, (got, want)

# What took 40 s is not tried again in the last 20 of 100.
clock, tried = [0], []
t.time = types.SimpleNamespace(monotonic=lambda: clock[0])
those = t.Measurements(types.SimpleNamespace(seconds=100, python='none', tiny=False))
def measure(name, config):
    tried.append(config['num_hidden_layers'])
    clock[0] += 40
    those.left[name] = ['no PyTorch']
    return True
those.measure = measure
those.measure_largest('llama', d.llama(20))
assert tried == [20, 22] and those.left['llama'] == ['layers of llama: 22 fit', 'no PyTorch'], (tried, those.left)
assert t.peak_of('NVIDIA H100 80GB HBM3') > t.peak_of('NVIDIA H100 PCIe') > t.peak_of('a host') == 0
"
                ERROR_VARIABLE said RESULT_VARIABLE status)
if(NOT status EQUAL 0)
  message(FATAL_ERROR "${said}")
endif()

# --like FILE is what it repeats, --json FILE where.
foreach(stand_in same other)
  file(WRITE ${folder}/${stand_in} "#!/bin/sh
[ \"$1\" != -c ] || exit 0
while [ $# -gt 1 ]; do
  case $1 in --like) like=$2 ;; --json) json=$2 ;; esac
  shift
done
")
endforeach()
file(APPEND ${folder}/same "cp \"$like\" \"$json\"\n")
file(APPEND ${folder}/other "sed '5s/\"loss\":[0-9.]*/\"loss\":5.0/' \"$like\" >\"$json\"\n")
file(CHMOD ${folder}/same ${folder}/other PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE)
execute_process(COMMAND ${command} --python ${folder}/same --models llama --steps 6 --turns 2
                OUTPUT_VARIABLE said ERROR_VARIABLE said RESULT_VARIABLE status)
if(NOT status EQUAL 0 OR NOT said MATCHES "[|] llama, 2 layers, [^\n]* [|] ([0-9]+) [|] ([0-9]+) [|] 1[.]000 [|]" OR
   NOT said MATCHES "[|] llama, 3 layers, [^\n]* [|] 1[.]000 [|]" OR NOT said MATCHES "layers of llama: 3 fit\n" OR
   NOT said MATCHES "loss of llama, PyTorch's: 1: 5[.]7")
  message(FATAL_ERROR "what repeats our metrics is not as fast, status ${status}: ${said}")
endif()
file(STRINGS ${folder}/loss_llama.csv curves)
list(LENGTH curves count)
if(NOT count EQUAL 7)
  message(FATAL_ERROR "loss_llama.csv has ${count} lines")
endif()
execute_process(COMMAND ${command} --python ${folder}/other --models gpt2 --steps 6 --turns 1
                OUTPUT_VARIABLE said ERROR_VARIABLE said RESULT_VARIABLE status)
if(NOT status EQUAL 1 OR NOT said MATCHES "gpt2: at step 5 our loss is 5[.]6[0-9]+, and PyTorch's 5[.]0000")
  message(FATAL_ERROR "curves that are apart passed with ${status}: ${said}")
endif()

# One that fails is said not to be measured; of one that lacks memory no smaller model is left to try, or the one before
# is the largest.
foreach(stand_in breaks starves grows)
  file(WRITE ${folder}/${stand_in} "#!/bin/sh\n[ \"$1\" != -c ] || exit 0\n")
endforeach()
file(APPEND ${folder}/breaks "echo no compiler; exit 3\n")
file(APPEND ${folder}/starves "echo CUDA out of memory; exit 1\n")
file(APPEND ${folder}/grows "while [ $# -gt 1 ]; do
  case $1 in --like) like=$2 ;; --json) json=$2 ;; --folder) folder=$2 ;; esac
  shift
done
cp \"$like\" \"$json\"
! grep -q '\"num_hidden_layers\": 3' \"$folder/config.json\" || { echo CUDA out of memory; exit 1; }
")
file(CHMOD ${folder}/breaks ${folder}/starves ${folder}/grows PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE)
foreach(case "breaks;0;not measured: theirs, llama: status 3: no compiler" "starves;1;status 1: CUDA out of memory"
        "grows;0;layers of llama: 2 fit, and 3 do not\n")
  list(GET case 0 stand_in)
  list(GET case 1 wanted)
  list(GET case 2 words)
  execute_process(COMMAND ${command} --python ${folder}/${stand_in} --models llama --steps 5 --turns 1
                  OUTPUT_VARIABLE said ERROR_VARIABLE said RESULT_VARIABLE status)
  if(NOT status EQUAL wanted OR NOT said MATCHES "${words}")
    message(FATAL_ERROR "${stand_in} ended with ${status}: ${said}")
  endif()
endforeach()
if(NOT said MATCHES "[|] llama, 2 layers" OR said MATCHES "[|] llama, 3 layers")
  message(FATAL_ERROR "what did not fit has a row: ${said}")
endif()
execute_process(COMMAND ${command} --python ${folder}/same --models bert OUTPUT_QUIET ERROR_VARIABLE said RESULT_VARIABLE status)
if(status EQUAL 0 OR NOT said MATCHES "bert is neither gpt2 nor llama")
  message(FATAL_ERROR "it trained a bert: ${said}")
endif()
