# Bugs, each in a row, whose words mutation.cmake explains. A row with SHOWS "no progress" is about kernels
# that then wait for ever, which the emulation ends; "timeout" is said of streams that do. "has given up" is
# a rank's whose peer has found something wrong.

# A race on what is in slots and buffers, where threads load or store it.
set(payload "data race [^\n]*(copyChunk|sumAligned|loadMemory|storeMemory|gather|scatter)<")

# ---- Orders of memory. ThreadSanitizer alone sees them, in calls where nothing else orders the same.

mutation(number_of_a_message_is_stored_without_release
         FILE src/executor/kernel/message_device.cuh
         FROM [[ptx::stReleaseSys(&header->sequence, message);]]
         TO [[ptx::stRelaxedSys(&header->sequence, message);]]
         SANITIZER thread TEST cuda_interpreter_test FILTER Messages.ThatGoOneWay*
         SHOWS "data race [^\n]*awaitHeader")
mutation(number_of_a_message_is_loaded_without_acquire
         FILE src/executor/kernel/wait_device.cuh
         FROM [[ptx::ldAcquireSys(word) != wanted]]
         TO [[ptx::ldRelaxedSys(word) != wanted]]
         SANITIZER thread TEST cuda_interpreter_test FILTER Messages.ThatGoOneWay*
         SHOWS "data race [^\n]*awaitHeader")
mutation(credit_is_stored_without_release
         FILE src/executor/kernel/step_device.cuh
         FROM [[ptx::stReleaseSys(link.peerCredit, ]]
         TO [[ptx::stRelaxedSys(link.peerCredit, ]]
         SANITIZER thread TEST cuda_interpreter_test FILTER Messages.ThatGoOneWay*
         SHOWS "${payload}")
mutation(credit_or_entry_is_loaded_without_acquire
         FILE src/executor/kernel/wait_device.cuh
         FROM [[int32_t(ptx::ldAcquireSys(word) - least)]]
         TO [[int32_t(ptx::ldRelaxedSys(word) - least)]]
         SANITIZER thread TEST cuda_interpreter_test FILTER Messages.ThatGoOneWay*
         SHOWS "${payload}")
mutation(credit_of_an_exchange_is_stored_without_release
         FILE src/executor/kernel/exchange_device.cuh
         FROM [[ptx::stReleaseSys(way.link.peerCredit, message);]]
         TO [[ptx::stRelaxedSys(way.link.peerCredit, message);]]
         SANITIZER thread TEST cuda_exchange_test FILTER Exchanges.InACycle*
         SHOWS "${payload}")
mutation(steps_of_a_lane_are_stored_without_release
         FILE src/executor/kernel/step_device.cuh
         FROM [[ptx::stReleaseGpu(lane.rank.progress]]
         TO [[ptx::stRelaxedGpu(lane.rank.progress]]
         SANITIZER thread TEST cuda_slices_test FILTER Wires/Slices.OfPlansWhoseLanesWait*/0
         SHOWS "${payload}")
mutation(steps_of_a_lane_are_loaded_without_acquire
         FILE src/executor/kernel/wait_device.cuh
         FROM [[ptx::ldAcquireGpu(word)]]
         TO [[ptx::ldRelaxedGpu(word)]]
         SANITIZER thread TEST cuda_slices_test FILTER Wires/Slices.OfPlansWhoseLanesWait*/0
         SHOWS "${payload}")
mutation(last_lane_does_not_acquire_what_the_others_have_read
         FILE src/executor/kernel/launch_device.cuh
         FROM [[ptx::atomAddAcqRelGpu(&rank.words->lanesDone, 1u)]]
         TO [[ptx::atomAddRelaxedGpu(&rank.words->lanesDone, 1u)]]
         SANITIZER thread TEST cuda_slices_test FILTER Wires/Slices.OfPlansWhoseLanesWait*/0
         SHOWS "data race [^\n]*((countMessages|interpret)<|cuda::end[(])")
mutation(end_of_a_call_is_stored_without_release
         FILE src/executor/kernel/launch_device.cuh
         FROM [[ptx::stReleaseGpu(&rank.words->followed,]]
         TO [[ptx::stRelaxedGpu(&rank.words->followed,]]
         SANITIZER thread TEST cuda_launches_test FILTER Wires/Chains.CallsFollowEachOther/0
         SHOWS "data race")
mutation(end_of_a_call_is_loaded_without_acquire
         FILE src/executor/kernel/launch_device.cuh
         FROM [[ptx::ldAcquireGpu(&rank.words->followed)]]
         TO [[ptx::ldRelaxedGpu(&rank.words->followed)]]
         SANITIZER thread TEST cuda_launches_test FILTER Wires/Chains.CallsFollowEachOther/0
         SHOWS "data race")
mutation(entry_is_stored_without_release
         FILE src/executor/kernel/interpreter_device.cuh
         FROM [[ptx::stReleaseSys(&entry.number, number);]]
         TO [[ptx::stRelaxedSys(&entry.number, number);]]
         SANITIZER thread TEST cuda_launches_test FILTER Wires/Graphs.OfAMappedPlanReplay/0
         SHOWS "data race [^\n]*exchangeEntries")
mutation(flag_of_a_probe_is_stored_without_release
         FILE transports/p2p/probe_device.cuh
         FROM [[ptx::stReleaseSys(reinterpret_cast<uint32_t*>(pair.there), all.seed);]]
         TO [[ptx::stRelaxedSys(reinterpret_cast<uint32_t*>(pair.there), all.seed);]]
         SANITIZER thread TEST cuda_launches_test FILTER Connecting.HonestPairsStay
         SHOWS "data race [^\n]*(probePeers|writePattern)")
mutation(flag_of_a_probe_is_loaded_without_acquire
         FILE transports/p2p/probe_device.cuh
         FROM [[ptx::ldAcquireSys(flag)]]
         TO [[ptx::ldRelaxedSys(flag)]]
         SANITIZER thread TEST cuda_launches_test FILTER Connecting.HonestPairsStay
         SHOWS "data race [^\n]*(probePeers|writePattern)")

# ---- Barriers.

mutation(data_moves_before_the_operands_are_found
         FILE src/executor/kernel/step_device.cuh
         FROM [[    lane.sync();
    if (chunk == 0 && lane.shared->stoppedWaiting) return false;]]
         TO [[    if (chunk == 0 && lane.shared->stoppedWaiting) return false;]]
         SANITIZER thread TEST cuda_interpreter_test FILTER Messages.ThatGoOneWay*
         SHOWS "data race|SEGV")
mutation(message_is_told_before_all_threads_have_moved_it
         FILE src/executor/kernel/step_device.cuh
         FROM [[  lane.sync();
  if (lane.shared->stoppedMoving) return false;
  publish]]
         TO [[  if (lane.shared->stoppedMoving) return false;
  publish]]
         SANITIZER thread TEST cuda_interpreter_test FILTER Messages.ThatGoOneWay*
         SHOWS "data race")
mutation(message_of_an_exchange_is_told_before_all_threads_have_moved_it
         FILE src/executor/kernel/exchange_device.cuh
         FROM [[  lane.sync();
  if (lane.shared->stoppedMoving) return false;]]
         TO [[  if (lane.shared->stoppedMoving) return false;]]
         SANITIZER thread TEST cuda_exchange_test FILTER Exchanges.InACycle*
         SHOWS "data race")
mutation(lane_has_left_a_call_before_all_its_threads_have_counted
         FILE src/executor/kernel/interpreter_device.cuh
         FROM [[    if (rank.next != 0) ptx::barSync(1 + group, all.threadsPerLane);  // all have counted
]]
         SANITIZER thread TEST cuda_launches_test FILTER Wires/Chains.CallsFollowEachOther/0
         SHOWS "SEGV|data race")
mutation(lanes_leave_before_they_see_that_their_call_has_ended
         FILE src/executor/kernel/launch_device.cuh
         FROM [[    if (ptx::ldAcquireGpu(&rank.words->followed) != followed) return true;
    if (isStopped) return false;]]
         TO [[    if (isStopped) return false;
    if (ptx::ldAcquireGpu(&rank.words->followed) != followed) return true;]]
         TEST cuda_launches_test FILTER Chain.LanesAreLeft*
         SHOWS ", turn [0-9]")
mutation(lanes_of_exchanges_that_give_up_are_not_counted
         FILE src/executor/kernel/exchange_device.cuh
         FROM [[    leaveFailed(rank);]]
         TO [[    return;]]
         TEST cuda_exchange_test FILTER Exchanges.OfWhichOneLane*
         SHOWS "calls behind")
mutation(call_begins_while_lanes_are_in_the_one_before
         FILE src/executor/kernel/launch_device.cuh
         FROM [[ptx::ldAcquireGpu(&rank.words->followed) != followed]]
         TO [[true]]
         TEST cuda_launches_test FILTER Wires/Chains.*
         SHOWS "FAILED  . Wires/Chains")
mutation(lanes_without_a_part_in_a_call_are_not_waited_for
         FILE src/executor/kernel/launch_device.cuh
         FROM [[return before + 1 == rank.lanes;]]
         TO [[return before + 1 == rank.program->lanes * rank.shape.slices;]]
         TEST cuda_launches_test FILTER Wires/Chains.*
         SHOWS "no progress|FAILED  . Wires/Chains")
mutation(operands_of_the_next_chunk_are_written_over_those_in_use
         FILE src/executor/kernel/step_device.cuh
         FROM [[lane.operands() + chunk % 2 * lane.all.mostPorts]]
         TO [[lane.operands()]]
         TEST cuda_interpreter_test FILTER Simple/Plans.*/2
         SHOWS "differs from byte")
mutation(lanes_share_one_barrier
         FILE src/executor/kernel/wait_device.cuh
         FROM [[ptx::barSync(1 + group, all.threadsPerLane)]]
         TO [[ptx::barSync(1, all.threadsPerLane)]]
         TEST cuda_slices_test FILTER Wires/Slices.GiveTheHostsBits/0
         SHOWS "deadlock: no thread can go on")
mutation(warp_does_not_wait_before_it_writes_in_place
         FILE src/executor/kernel/fold_device.cuh
         FROM [[if constexpr (kWire == Wire::LL128) __syncwarp();]]
         TEST cuda_interpreter_test FILTER LL128/Plans.*/1 SEED 1
         SHOWS "differs from byte")
mutation(flag_of_a_probe_is_raised_before_all_threads_have_written
         FILE transports/p2p/probe_device.cuh
         FROM [[  __syncthreads();
  if (threadIdx.x == 0) ptx::stReleaseSys]]
         TO [[  if (threadIdx.x == 0) ptx::stReleaseSys]]
         SANITIZER thread TEST cuda_launches_test FILTER Connecting.HonestPairsStay
         SHOWS "data race [^\n]*(probePeers|writePattern)")

# ---- Numbers of messages, credits, slots and flags.

mutation(slot_is_taken_for_free_a_ring_too_early
         FILE src/executor/kernel/message_device.cuh
         FROM [[message - lane.all.slotCount]]
         TO [[message - 2 * lane.all.slotCount]]
         TEST cuda_interpreter_test FILTER Messages.ThatGoOneWay*
         SHOWS "differs from byte|no progress")
mutation(credit_is_not_awaited
         FILE src/executor/kernel/message_device.cuh
         FROM [[  if (!awaitAtLeast(lane, credit, message - lane.all.slotCount, peer)) return;]]
         TEST cuda_exchange_test FILTER Exchanges.InACycle*
         SHOWS "differs from byte|no progress")
mutation(credit_is_not_given_back
         FILE src/executor/kernel/step_device.cuh
         FROM [[      ptx::stReleaseSys(link.peerCredit, messageOf(lane, port, link.received));]]
         TO [[      continue;]]
         TEST cuda_interpreter_test FILTER Messages.ThatGoOneWay*
         SHOWS "no progress")
mutation(credit_is_given_for_a_message_that_has_not_come
         FILE src/executor/kernel/exchange_device.cuh
         FROM [[ptx::stReleaseSys(way.link.peerCredit, message);]]
         TO [[ptx::stReleaseSys(way.link.peerCredit, message + 1);]]
         SANITIZER thread TEST cuda_exchange_test FILTER Exchanges.InACycle*
         SHOWS "${payload}")
mutation(half_of_the_slots_are_used
         FILE src/executor/kernel/message_device.cuh
         FROM [[(lane.all.slotCount - 1)) * stride]]
         TO [[(lane.all.slotCount / 2 - 1)) * stride]]
         TEST cuda_interpreter_test FILTER Messages.ThatGoOneWay*
         SHOWS "differs from byte|no progress")
mutation(rounds_count_one_message_each
         FILE src/executor/kernel/step_device.cuh
         FROM [[lane.round * port.perRound]]
         TO [[lane.round]]
         TEST cuda_interpreter_test FILTER Messages.AreCounted*
         SHOWS "differs from byte|no progress|disagree|has given up")
mutation(messages_of_one_round_are_counted
         FILE src/executor/kernel/interpreter_device.cuh
         FROM [[before.sent + rounds * links[i].sends]]
         TO [[before.sent + links[i].sends]]
         TEST cuda_interpreter_test FILTER Messages.AreCounted*
         SHOWS "differs from byte|no progress|disagree|has given up")
mutation(counts_do_not_outlive_the_launch
         FILE src/executor/kernel/interpreter_device.cuh
         FROM [[before.received + rounds * links[i].receives]]
         TO [[before.received]]
         TEST cuda_launches_test FILTER Wires/Graphs.OfAStagedPlanReplay/1
         SHOWS "is wrong, seed|no progress|disagree|has given up")
mutation(messages_of_an_exchange_are_not_counted
         FILE src/executor/kernel/exchange_device.cuh
         FROM [[    bulk.keep();]]
         TEST cuda_exchange_test FILTER Exchanges.OfAllSizes*
         SHOWS "differs from byte|no progress|disagree|has given up")
mutation(flag_has_the_number_of_the_other_direction
         FILE src/executor/kernel/step_device.cuh
         FROM [[messageOf(lane, port, isSource ? link.received : link.sent)]]
         TO [[messageOf(lane, port, link.sent)]]
         TEST cuda_interpreter_test FILTER LL/Plans.*/1
         SHOWS "differs from byte|no progress|disagree|has given up")
mutation(credits_do_not_wrap
         FILE src/executor/kernel/wait_device.cuh
         FROM [[int32_t(ptx::ldAcquireSys(word) - least) < 0]]
         TO [[ptx::ldAcquireSys(word) < least]]
         TEST cuda_interpreter_test FILTER Messages.AreCounted*
         SHOWS "differs from byte|no progress|disagree|has given up")
mutation(old_flags_of_ll_are_taken
         FILE src/executor/kernel/pack_device.cuh
         FROM [[first.y == flag && first.w == flag && last.y == flag && last.w == flag]]
         TO [[first.y != 0 && first.w != 0 && last.y != 0 && last.w != 0]]
         TEST cuda_interpreter_test FILTER Messages.AreCounted*
         SHOWS "differs from byte|no progress|disagree|has given up")
mutation(one_flag_of_two_is_looked_at
         FILE src/executor/kernel/pack_device.cuh
         FROM [[first.y == flag && first.w == flag && last.y == flag && last.w == flag]]
         TO [[first.y == flag && last.y == flag]]
         TEST cuda_interpreter_test FILTER Messages.AreCounted* SEED 1
         SHOWS "differs from byte|disagree|has given up")
mutation(flags_of_the_second_words_are_not_looked_at
         FILE src/executor/kernel/pack_device.cuh
         FROM [[first.y == flag && first.w == flag && last.y == flag && last.w == flag]]
         TO [[first.y == flag && first.w == flag]]
         TEST cuda_interpreter_test FILTER Messages.AreCounted* SEED 1
         SHOWS "differs from byte|disagree|has given up")
mutation(any_line_of_a_warp_will_do
         FILE src/executor/kernel/pack_device.cuh
         FROM [[__all_sync(~0u, !hasFlag]]
         TO [[__any_sync(~0u, !hasFlag]]
         TEST cuda_interpreter_test FILTER LL128/Plans.*/0
         SHOWS "differs from byte")
mutation(flag_of_a_line_stays_in_the_data
         FILE src/executor/kernel/pack_device.cuh
         FROM [[if (index % 8 == 7) part.bytes = 8;]]
         TEST cuda_interpreter_test FILTER LL128/Plans.*/0
         SHOWS "differs from byte")
mutation(second_half_of_a_pack_has_the_flag_before
         FILE src/executor/kernel/pack_device.cuh
         FROM [[sendWords(to + 16, value.z, value.w, operand.flag);]]
         TO [[sendWords(to + 16, value.z, value.w, operand.flag - 1);]]
         TEST cuda_interpreter_test FILTER LL/Plans.*/0
         SHOWS "no progress")
mutation(launch_is_never_over
         FILE src/executor/kernel/launch_device.cuh
         FROM [[  rank.words->lanesDone = 0;
  rank.words->completed]]
         TO [[  rank.words->completed]]
         TEST cuda_launches_test FILTER Wires/Chains.*
         SHOWS "operations instead of|no progress|disagree")

# ---- Calls that are performed at once.

set(shot FILE src/executor/kernel/one_shot_device.cuh TEST cuda_launches_test)
mutation(at_once_a_slot_is_taken_for_free
         ${shot} FROM [[sent - all.slotCount]] TO [[sent - 2 * all.slotCount]]
         FILTER OneShot.WaitsForItsSlot
         SHOWS "Which is|no progress")
mutation(at_once_no_credit_is_given_back
         ${shot} FROM [[    ptx::stRelaxedSys(link.peerCredit, received);]]
         FILTER OneShot.CountsMessages*
         SHOWS "no progress")
mutation(at_once_what_is_discarded_begins
         ${shot} FROM [[                  .operation = rank.words->operation,
                  .hasFailed = isOver(rank)};]]
         TO [[                  .operation = rank.words->operation};]]
         FILTER OneShotFaults.WhatIsDiscarded*
         SHOWS "Which is|Actual: true")
mutation(what_is_discarded_begins
         FILE src/executor/kernel/interpreter_device.cuh
         FROM [[  if (shared->isOver) return false;]]
         TEST cuda_launches_test FILTER *Faults.WhatIsDiscarded*
         SHOWS "Which is|Actual: true")
mutation(what_is_discarded_reads_its_scalar
         FILE src/executor/kernel/interpreter_device.cuh
         FROM [[readsScalar && !shared->isOver]]
         TO [[readsScalar]]
         TEST cuda_launches_test FILTER ScalarFaults.WhatIsDiscarded*
         SHOWS "Segmentation fault")
mutation(an_exchange_that_is_discarded_begins
         FILE src/executor/kernel/exchange_device.cuh
         FROM [[!shared->isOver && runEdges(lane)]]
         TO [[runEdges(lane)]]
         TEST cuda_exchange_test FILTER Exchanges.ThatAreDiscarded*
         SHOWS "Which is|Actual: true|Actual: false")
mutation(the_word_that_discards_is_not_copied
         FILE src/executor/kernel/kernel_executor.cc
         FROM [[  TUTTI_CUDA(cudaMemcpyAsync(&endpoint_.words()->discarded, stopWord_.data(), sizeof(uint32_t),
                             cudaMemcpyHostToDevice, setup_.get()));]]
         TEST cuda_launches_test FILTER Wires/Faults.WhatIsDiscarded*
         SHOWS "Which is|Actual: true")
mutation(who_is_over_tells_nobody_who_waits_for_the_next_call
         FILE src/executor/kernel/launch_device.cuh
         FROM [[  ptx::atomCasAcqRelGpu(&rank.words->stop, 0u, uint32_t(StopReason::Aborted));]]
         TEST cuda_launches_test FILTER Wires/Chains.ThatAreDiscarded*
         SHOWS "no progress|timeout")
mutation(at_once_what_is_sent_is_not_counted
         ${shot} FROM [[    ptx::stRelaxedGpu(&link.sent, sent);]]
         FILTER OneShot.CountsMessages*
         SHOWS "differs from byte|no progress|disagree|has given up")
mutation(at_once_what_is_received_is_not_counted
         ${shot} FROM [[    ptx::stRelaxedGpu(&link.received, received);]]
         FILTER OneShot.CountsMessages*
         SHOWS "differs from byte|no progress|disagree|has given up")
mutation(at_once_headers_are_not_looked_at
         ${shot} FROM [[    else if (!lane.hasFailed)
      checkHeader(lane, int(peer), bytes, {value.x, value.y, value.z});]]
         FILTER OneShotFaults.CallsThatDiffer*
         SHOWS "no rank has that error")
mutation(at_once_failures_are_not_told_to_other_threads
         ${shot} FROM [[  if (shared->stoppedMoving) return false;]]
         FILTER OneShotFaults.CountsThatDiffer*
         SHOWS "FAILED  . OneShotFaults")
mutation(at_once_failures_are_told_to_threads_of_the_call_before
         ${shot} FROM [[atomicExch(&shared->stoppedMoving, 1u);
  lane.sync();
  if (shared->stoppedMoving) return false;]]
         TO [[atomicExch(&shared->stoppedWaiting, 1u);
  lane.sync();
  if (shared->stoppedWaiting) return false;]]
         FILTER OneShotFaults.AMismatchBehind* SEED 1
         SHOWS "deadlock|no progress")
mutation(at_once_a_call_begins_behind_its_wait_for_a_slot
         ${shot} FROM [[  if (thread == lane.threads() - 1) begin(rank, true);  // who waits for nobody, as a rule
]]
         TO [[  while (lane.thread == lane.threads() - 1 && ptx::ldAcquireSys(link.credit) < 2) spinHint();
  if (thread == lane.threads() - 1) begin(rank, true);
]]
         FILTER OneShot.WaitsForItsSlot
         SHOWS "steady_clock|no progress")
mutation(at_once_sums_begin_before_all_has_come
         ${shot} FROM [[  lane.sync();
  if (shared->stoppedMoving)]]
         TO [[  if (shared->stoppedMoving)]]
         FILTER OneShot.Replays
         SHOWS "a load of 16 bytes at|is wrong, seed")
mutation(at_once_a_rank_is_a_peer_of_its_own
         ${shot} FROM [[other + (other >= rank.rank)]] TO [[other + (other > rank.rank)]]
         FILTER OneShot.GivesTheHostsBits
         SHOWS "a store of 16 bytes at .nil.")
mutation(at_once_a_piece_has_8_bytes
         ${shot} FROM [[isHeader || part.bytes > 8 ? 2 : 1]] TO [[isHeader ? 2 : 1]]
         FILTER OneShot.GivesTheHostsBits
         SHOWS "differs from byte")
mutation(at_once_there_are_more_pieces_than_threads
         ${shot} FROM [[(rank.ranks - 1) * pieces <= all.threadsPerLane]] TO [[true]]
         FILTER OneShot.OfAnyRanks*
         SHOWS "differs from byte")
mutation(at_once_there_is_always_room
         ${shot} FROM [[rank.ranks * (pieces - 1) * sizeof(uint4) <= all.sharedProgramBytes]] TO [[true]]
         SANITIZER address FILTER OneShot.WithoutRoom*
         SHOWS "AddressSanitizer")
mutation(at_once_the_ranks_own_part_has_come
         ${shot} FROM [[    if (r == rank.rank) operand.at = const_cast<unsigned char*>(rank.in);]]
         FILTER OneShot.GivesTheHostsBits
         SHOWS "differs from byte")
mutation(at_once_averages_are_sums
         FILE src/executor/kernel/step_device.cuh TEST cuda_launches_test
         FROM [[completes && arithmetic.op == kAvg]] TO [[!completes && arithmetic.op == kAvg]]
         FILTER OneShot.GivesTheHostsBits
         SHOWS "differs from byte")
mutation(at_once_inputs_that_are_scaled_are_not
         FILE src/executor/kernel/launch.cc TEST cuda_launches_test
         FROM [[ && facts.op != ReduceOp::PreMulSum]]
         FILTER OneShot.GivesTheHostsBits
         SHOWS "differs from byte")
mutation(at_once_rounds_are_one
         FILE src/executor/kernel/launch.cc TEST cuda_launches_test
         FROM [[shape.rounds() == 1]] TO [[true]]
         FILTER OneShot.IsForShortCalls*
         SHOWS "differs from byte|no progress|disagree|has given up")
mutation(at_once_a_plan_ends_as_it_likes
         FILE src/executor/kernel/program.cc TEST cuda_launches_test
         FROM [[ && program.lanes[0].steps[1] == fold]]
         FILTER OneShot.MeetsARank*
         SHOWS "isOneShot")
mutation(at_once_peers_are_on_any_host
         FILE src/executor/kernel/kernel_executor.cc TEST cuda_proxy_test
         FROM [[if (endpoint_.isThroughHost(peer) || endpoint_.isByHost(peer)) plan->isOneShot_ = false;]]
         TO [[continue;]]
         FILTER Sim/RemotePlans.*
         SHOWS "a store of 16 bytes at .nil.")

# ---- Entries of mapped plans, and lanes that wait for each other.

mutation(entries_are_numbered_from_0
         FILE src/executor/kernel/interpreter_device.cuh
         FROM [[const uint32_t number = lane.shared->entries + 1;]]
         TO [[const uint32_t number = lane.shared->entries;]]
         TEST cuda_interpreter_test FILTER Simple/Plans.*/0
         SHOWS "differs from byte|disagree|has given up")
mutation(entries_are_not_counted
         FILE src/executor/kernel/interpreter_device.cuh
         FROM [[if (!rank.isOneShot) rank.words->entries += rank.program->maps;]]
         TEST cuda_launches_test FILTER Wires/Graphs.OfAMappedPlanReplay/0
         SHOWS "is wrong, seed|disagree|has given up")
mutation(there_is_one_entry_for_odd_and_even_numbers
         FILE src/executor/kernel/interpreter_device.cuh
         FROM [=[rank.peers[p].entriesThere[lane.shared->entries % 2]]=]
         TO [=[rank.peers[p].entriesThere[0]]=]
         TEST cuda_launches_test FILTER Wires/Graphs.OfAMappedPlanReplay/0
         SHOWS "no progress")
mutation(steps_of_earlier_operations_count
         FILE src/executor/kernel/wait_device.cuh
         FROM [[uint32_t(seen >> 32) == lane.operation && uint32_t(seen) >= steps]]
         TO [[uint32_t(seen) >= steps]]
         SANITIZER thread TEST cuda_slices_test FILTER Wires/Slices.OfPlansWhoseLanesWait*/0
         SHOWS "${payload}")
mutation(lane_waits_for_the_step_before
         FILE src/executor/kernel/step_device.cuh
         FROM [[lanes[after.lane].steps + after.step + 1;]]
         TO [[lanes[after.lane].steps + after.step;]]
         TEST cuda_slices_test FILTER Wires/Slices.OfLanes*
         SHOWS "Buffer.back")
mutation(operations_are_not_counted
         FILE src/executor/kernel/interpreter_device.cuh
         FROM [[    rank.words->operation += 1;]]
         SANITIZER thread TEST cuda_slices_test FILTER Wires/Slices.OfPlansWhoseLanesWait*/0
         SHOWS "${payload}")

# ---- Slices, chunks, tails.

mutation(slice_begins_behind_the_chunk
         FILE src/executor/kernel/step_device.cuh
         FROM [[min(lane.slice * block.sliceBytes, end - begin)]]
         TO [[lane.slice * block.sliceBytes]]
         TEST cuda_slices_test FILTER Wires/Slices.GiveTheHostsBits/0
         SHOWS "differs from byte|faults|disagree|no progress")
mutation(slices_share_scratch
         FILE src/executor/kernel/step_device.cuh
         FROM [[(uint64_t(chunk) * shape.slices + lane.slice) * shape.sliceBytes]]
         TO [[uint64_t(chunk) * shape.sliceBytes]]
         TEST cuda_slices_test FILTER Wires/Slices.GiveTheHostsBits/0
         SHOWS "differs from byte")
mutation(tables_are_used_before_they_are_copied
         FILE src/executor/kernel/interpreter_device.cuh
         FROM [[lane.sync();
  if (lane.thread == 0 && number == 0) begin]]
         TO [[if (lane.thread == 0 && number == 0) begin]]
         TEST cuda_interpreter_test FILTER Simple/Plans.*/0
         SHOWS "Bus error|Segmentation fault|differs from byte|no progress|disagree|has given up")
mutation(slices_share_links
         FILE src/executor/kernel/interpreter_device.cuh
         FROM [[rank.links + lane.slice * rank.linksPerSlice]]
         TO [[rank.links]]
         TEST cuda_slices_test FILTER Wires/Slices.GiveTheHostsBits/0
         SHOWS "differs from byte|no progress|disagree|has given up")
mutation(rounds_of_divided_blocks_overlap
         FILE src/executor/kernel/step_device.cuh
         FROM [[(uint64_t{lane.round} * shape.divisions + division)]]
         TO [[(lane.round + division)]]
         TEST cuda_interpreter_test FILTER Simple/Plans.*/2
         SHOWS "differs from byte")
mutation(empty_slice_of_a_transfer_has_bytes
         FILE src/executor/kernel/exchange_device.cuh
         FROM [[return min(transfer.sliceBytes, transfer.bytes - sliceBegin(lane, transfer));]]
         TO [[return transfer.sliceBytes;]]
         TEST cuda_exchange_test FILTER Exchanges.OfAllSizes*
         SHOWS "differs from byte|faults|beyond")
mutation(last_pack_is_whole
         FILE src/executor/kernel/pack_device.cuh
         FROM [[part.bytes = uint32_t(bytes - part.offset);]]
         TO [[part.bytes = 16;]]
         TEST cuda_interpreter_test FILTER Simple/Plans.*/0
         SHOWS "differs from byte")
mutation(last_pack_is_left_out
         FILE src/executor/kernel/pack_device.cuh
         FROM [[: (bytes + 15) / 16;]]
         TO [[: bytes / 16;]]
         TEST cuda_interpreter_test FILTER Simple/Plans.*/0
         SHOWS "differs from byte")
mutation(tree_in_registers_joins_neighbours_alone
         FILE src/executor/kernel/fold_device.cuh
         FROM [[for (int width = 1; width < kSources; width *= 2)]]
         TO [[for (int width = 1; width < 2; width *= 2)]]
         TEST cuda_interpreter_test FILTER Simple/Plans.*/4
         SHOWS "differs from byte")
mutation(sums_go_on_behind_the_last_pack
         FILE src/executor/kernel/fold_device.cuh
         FROM [[  for (; first + (kPacks - 1) * threads < packs; first += kPacks * threads) {
    uint4 packed[kPacks], next]]
         TO [[  for (; first < packs; first += kPacks * threads) {
    uint4 packed[kPacks], next]]
         TEST cuda_interpreter_test FILTER Simple/Plans.*/0
         SHOWS "differs from byte|Segmentation fault")
mutation(parts_of_lines_are_taken_for_aligned
         FILE src/executor/kernel/pack_device.cuh
         FROM [[  if (operand.alignment == 16 && part.bytes == 16 && part.offset % 16 == 0)
    return]]
         TO [[  if (operand.alignment == 16 && part.bytes == 16)
    return]]
         SANITIZER address TEST cuda_interpreter_test FILTER LL128/Plans.*/0
         SHOWS "misaligned address")

# ---- Peers on other hosts.

mutation(messages_to_other_hosts_go_by_the_launchs_wire
         FILE src/executor/kernel/step_device.cuh
         FROM [[return kWire == Wire::Simple || link.leavesHost;]]
         TO [[return kWire == Wire::Simple;]]
         TEST cuda_slices_test FILTER Wires/Uneven.BlocksOfOther*/1
         SHOWS "differs from byte|no progress|has given up|disagree")
mutation(gaps_in_a_message_do_not_count
         FILE src/executor/kernel/step_device.cuh
         FROM [[reach = i * lane.rank.shape.sliceBytes + bytes;]]
         TO [[reach += bytes;]]
         TEST cuda_proxy_test FILTER Remote.ChunksOfOne*
         SHOWS "differs from byte|no progress|has given up|disagree")

# ---- Folds.

mutation(trees_are_folded_as_lists
         FILE src/executor/kernel/step_device.cuh
         FROM [[fold == StepFold::Canonical && chunk.sourceCount > 2 &&]]
         TO [[fold == StepFold::Canonical && chunk.sourceCount > 99 &&]]
         TEST cuda_interpreter_test FILTER Simple/Plans.*/2
         SHOWS "differs from byte")
mutation(deterministic_sums_are_rounded_once
         FILE src/executor/kernel/step_device.cuh
         FROM [[chunk.isRounded = arithmetic.deterministic != 0;]]
         TO [[chunk.isRounded = false;]]
         TEST cuda_interpreter_test FILTER Numbers.OfAllTypes*
         SHOWS "differs from byte")
mutation(partial_sums_are_divided_too
         FILE src/executor/kernel/step_device.cuh
         FROM [[completes && arithmetic.op == kAvg]]
         TO [[arithmetic.op == kAvg]]
         TEST cuda_interpreter_test FILTER Numbers.OfAllTypes*
         SHOWS "differs from byte")
mutation(received_sums_are_multiplied_again
         FILE src/executor/kernel/step_device.cuh
         FROM [[port.kind == PortKind::Local && port.buffer == PortBuffer::In &&]]
         TEST cuda_interpreter_test FILTER Numbers.OfAllTypes*
         SHOWS "differs from byte")
mutation(scalar_in_memory_is_not_read
         FILE src/executor/kernel/interpreter_device.cuh
         FROM [[? scalarAt<kSize>(arithmetic.scalarAt, arithmetic.type)]]
         TO [[? 1.0]]
         TEST cuda_interpreter_test FILTER Numbers.AreScaledByWhatIsInMemory
         SHOWS "differs from byte")
mutation(integers_times_one_lose_their_low_bits
         FILE src/executor/kernel/numbers_device.cuh
         FROM [[return scalar == 1.0 ? x : truncate<Lane>(double(x) * scalar);]]
         TO [[return truncate<Lane>(double(x) * scalar);]]
         TEST cuda_interpreter_test FILTER Numbers.AreScaledByWhatIsInMemory
         SHOWS "differs from byte")
mutation(reduced_types_are_rounded_each_time
         FILE src/executor/kernel/fold_device.cuh
         FROM [[kSize <= 2 && !chunk.isRounded && isWidened(chunk.type, chunk.op)]]
         TO [[false]]
         TEST cuda_interpreter_test FILTER Numbers.OfAllTypes*
         SHOWS "differs from byte")
mutation(bfloat16_is_cut_off
         FILE src/executor/kernel/numbers_device.cuh
         FROM [[(bits + ((1u << (F::kShift - 1)) - 1) + (bits >> F::kShift & 1u)) >> F::kShift]]
         TO [[bits >> F::kShift]]
         TEST cuda_interpreter_test FILTER Numbers.OfAllTypes*
         SHOWS "differs from byte")
mutation(halves_are_rounded_up
         FILE src/executor/kernel/numbers_device.cuh
         FROM [[(moved + ((1u << (F::kShift - 1)) - 1) + (moved >> F::kShift & 1u)) >> F::kShift]]
         TO [[(moved + (1u << (F::kShift - 1))) >> F::kShift]]
         TEST cuda_interpreter_test FILTER Numbers.OfAllTypes*
         SHOWS "differs from byte")

# ---- Failing.

mutation(fingerprint_is_not_compared
         FILE src/executor/kernel/message_device.cuh
         FROM [[theirs.callHash != lane.callHash ||]]
         TEST cuda_launches_test FILTER Wires/Faults.CallsThatDiffer*
         SHOWS "no rank has that error")
mutation(types_of_transfers_are_not_compared
         FILE src/executor/exchange.cc
         FROM [[base::transferKey(type, ]]
         TO [[base::transferKey(DataType::UInt8, ]]
         TEST cuda_exchange_test FILTER Hosts/ExchangesThatDiffer.*/0
         SHOWS "receives 16 int32 is not in")
mutation(operation_is_not_compared
         FILE src/executor/kernel/message_device.cuh
         FROM [[theirs.operation != lane.operation ||]]
         TEST cuda_launches_test FILTER Wires/Faults.ASkipped*
         SHOWS "no rank has that error")
mutation(size_of_a_message_is_not_compared
         FILE src/executor/kernel/message_device.cuh
         FROM [[theirs.operation != lane.operation ||
      theirs.bytes != bytes]]
         TO [[theirs.operation != lane.operation]]
         TEST cuda_launches_test FILTER Wires/Faults.CountsThatDiffer*
         SHOWS "no rank has that error")
mutation(entries_are_not_compared
         FILE src/executor/kernel/interpreter_device.cuh
         FROM [[if (entry.callHash != lane.callHash || entry.operation != lane.operation)]]
         TO [[if (false)]]
         TEST cuda_launches_test FILTER MappedFaults.*
         SHOWS "ranks.buffer.r..download")
mutation(buffers_of_ranks_that_have_given_up_are_touched
         FILE src/executor/kernel/interpreter_device.cuh
         FROM [[ || hasGivenUp(lane)) break;]]
         TO [[) break;]]
         TEST cuda_launches_test FILTER MappedFaults.*
         SHOWS "ranks.buffer.0..download")
mutation(stop_word_is_not_looked_at
         FILE src/executor/kernel/wait_device.cuh
         FROM [[ptx::ldRelaxedSys(lane.rank.stopWord); word != 0]]
         TO [[0; word != 0]]
         TEST cuda_launches_test FILTER Wires/Faults.AbortEnds*
         SHOWS "no progress")
mutation(poison_is_not_looked_at
         FILE src/executor/kernel/wait_device.cuh
         FROM [[ptx::ldRelaxedSys(&words->poison); from != 0]]
         TO [[0; from != 0]]
         TEST cuda_launches_test FILTER Wires/Faults.AbortEnds*
         SHOWS "no progress")
mutation(poison_by_the_host_is_not_looked_at
         FILE src/executor/kernel/wait_device.cuh
         FROM [[words->hostPoison == nullptr ? 0]]
         TO [[true ? 0]]
         TEST cuda_launches_test FILTER Wires/Faults.AbortEndsAllRanksThatTheHostJoins*
         SHOWS "no progress")
mutation(peers_are_not_poisoned
         FILE src/executor/kernel/wait_device.cuh
         FROM [[if (rank.peers[p].poison != nullptr)]]
         TO [[if (false)]]
         TEST cuda_launches_test FILTER Wires/Faults.AbortEnds*
         SHOWS "no progress")
mutation(poison_of_rank_0_is_nothing
         FILE src/executor/kernel/wait_device.cuh
         FROM [[rank.rank + 1);]]
         TO [[rank.rank);]]
         TEST cuda_launches_test FILTER Wires/Faults.AbortEnds*
         SHOWS "no progress")
mutation(lanes_do_not_look_whether_another_has_given_up
         FILE src/executor/kernel/wait_device.cuh
         FROM [[if (ptx::ldRelaxedGpu(&words->stop) != 0) return lane.hasFailed = true;]]
         TEST cuda_slices_test FILTER Wires/Slices.AllEnd*
         SHOWS "no progress")
mutation(clock_is_not_looked_at
         FILE src/executor/kernel/wait_device.cuh
         FROM [[if (ptx::globalTimer() - lane.shared->began > lane.all.deadlineNs)]]
         TO [[if (false)]]
         TEST cuda_launches_test FILTER Wires/Faults.NoWait*
         SHOWS "no progress")
mutation(lane_goes_on_when_a_thread_has_stopped_waiting
         FILE src/executor/kernel/exchange_device.cuh
         FROM [[  if (lane.hasFailed) atomicExch(&lane.shared->stoppedWaiting, 1u);]]
         TEST cuda_exchange_test FILTER Hosts/ExchangesThatDiffer.*/0
         SHOWS "something was delivered")
mutation(wrong_bytes_of_a_pair_are_not_told
         FILE transports/p2p/probe_device.cuh
         FROM [[firstWrong[0] < all.words ?]]
         TO [[firstWrong[0] + 1 < all.words ?]]
         TEST cuda_launches_test FILTER LyingPair.*
         SHOWS "endpoint->isConnected")
mutation(probe_has_no_deadline
         FILE transports/p2p/probe_device.cuh
         FROM [[if (ptx::globalTimer() - began > all.deadlineNs) return false;]]
         TEST cuda_launches_test FILTER LyingPair.WhoseBytesNever*
         SHOWS "no progress")

# ---- Copies that are enqueued.

mutation(stream_does_not_wait_for_a_message
         FILE src/executor/copy/lane.cc
         FROM [[  queue_.awaitAtLeast(&mark->call, call);
  queue_.awaitAtLeast(&mark->complement, kOpen - call);
  queue_.awaitAtLeast(&mark->alive, 1);]]
         SANITIZER thread TEST copy_plans_test FILTER CopyOperations.DoNotOvertake*
         SHOWS "data race [^\n]*copyRows")
mutation(stream_does_not_wait_for_a_slot
         FILE src/executor/copy/lane.cc
         FROM [[  queue_.awaitAtLeast(
      ground_.endpoint.here(message.peer).copyCredit(message.channel, slotOf(message)), 0);]]
         SANITIZER thread TEST copy_plans_test FILTER CopyOperations.DoNotOvertake*
         SHOWS "data race [^\n]*copyRows")
mutation(slot_is_not_taken
         FILE src/executor/copy/lane.cc
         FROM [[  queue_.copy(ground_.endpoint.here(message.peer).copyCredit(message.channel, slot),
              &ground_.own->sources.taken, sizeof(uint32_t));]]
         SANITIZER thread TEST copy_plans_test FILTER CopyOperations.DoNotOvertake*
         SHOWS "data race [^\n]*copyRows")
mutation(mark_is_not_cleared
         FILE src/executor/copy/lane.cc
         FROM [[  queue_.copy(ground_.endpoint.here(message.peer).copyMark(message.channel, slot),
              &ground_.own->sources.empty, sizeof(CopyMark));]]
         SANITIZER thread TEST copy_plans_test FILTER CopyOperations.DoNotOvertake*
         SHOWS "data race [^\n]*copyRows")
mutation(greater_fingerprints_are_taken
         FILE src/executor/copy/lane.cc
         FROM [[  queue_.awaitAtLeast(&mark->complement, kOpen - call);]]
         TEST copy_faults_test FILTER CopyFaults.CountsThat*
         SHOWS "ErrorCode::Mismatch")
mutation(types_of_copied_transfers_are_not_compared
         FILE src/executor/exchange.cc
         FROM [[base::transferKey(type, ]]
         TO [[base::transferKey(DataType::UInt8, ]]
         TEST copy_exchange_test FILTER Pairs/CopiedElements.*/0
         SHOWS "ErrorCode::Mismatch")
mutation(slot_of_the_message_behind
         FILE src/executor/copy/lane.cc
         FROM [[message.number % ground_.endpoint.layout().rings.slotCount]]
         TO [[message.number % (ground_.endpoint.layout().rings.slotCount + 1)]]
         TEST copy_plans_test FILTER All/CopyPlans.*/1
         SHOWS "ranks disagree|differs from byte|timeout")
mutation(message_is_told_before_it_is_copied
         FILE src/executor/copy/exchange_run.cc
         FROM [[  lane.copy(lane.slot(message), data, message.bytes);
  lane.tell(message);]]
         TO [[  lane.tell(message);
  lane.queue().copy(lane.slot(message), data, message.bytes);]]
         SANITIZER thread TEST copy_exchange_test FILTER CopyExchange.OfPatterns*
         SHOWS "data race [^\n]*copyRows")
mutation(slot_is_given_back_before_it_is_read
         FILE src/executor/copy/exchange_run.cc
         FROM [[  lane.copy(data, lane.received(message), message.bytes);
  lane.giveBack(message);]]
         TO [[  lane.giveBack(message);
  lane.queue().copy(data, lane.received(message), message.bytes);]]
         SANITIZER thread TEST copy_exchange_test FILTER CopyExchange.OfPatterns*
         SHOWS "data race [^\n]*copyRows")
mutation(stream_does_not_wait_for_another_lane
         FILE src/executor/copy/lane.cc
         FROM [[  if (other.stream_.stream != stream_.stream) other.stream_.holdBack(queue_.flush());]]
         SANITIZER thread TEST copy_plans_test FILTER CopyOperations.WaitForOther*
         SHOWS "data race [^\n]*copyRows")
mutation(copies_do_not_look_for_a_scalar_in_memory
         FILE src/executor/copy/program_run.cc
         FROM [[(call_.scalarAt || call_.scalar != 1.0)]]
         TO [[call_.scalar != 1.0]]
         TEST copy_plans_test FILTER CopyNumbers.AreScaledByWhatIsInMemory
         SHOWS "differs from byte")
mutation(step_gives_back_what_it_has_not_folded
         FILE src/executor/copy/program_run.cc
         FROM [[  move(lane, step, piecesOf(lane, step, messages));
  for (size_t i = 0; i < step.targets.size(); ++i)
    if (isChannel(step.targets[i])) lane.tell(messages[step.sources.size() + i]);
  for (size_t i = 0; i < step.sources.size(); ++i)
    if (isChannel(step.sources[i])) lane.giveBack(messages[i]);]]
         TO [[  for (size_t i = 0; i < step.sources.size(); ++i)
    if (isChannel(step.sources[i])) lane.giveBack(messages[i]);
  move(lane, step, piecesOf(lane, step, messages));
  for (size_t i = 0; i < step.targets.size(); ++i)
    if (isChannel(step.targets[i])) lane.tell(messages[step.sources.size() + i]);]]
         SANITIZER thread TEST copy_plans_test FILTER CopyOperations.DoNotOvertake*
         SHOWS "data race [^\n]*copyRows")
mutation(wait_that_is_over_is_still_told
         FILE src/executor/copy/lane.cc
         FROM [[{ queue_.write(&words_->state.place, placeOf(Waiting::Passed, 0, 0, 0)); }]]
         TO [[{}]]
         TEST copy_lanes_test FILTER CopyLanes.*
         SHOWS "has given up")
mutation(operation_ends_without_a_look_at_poison
         FILE src/executor/copy/copy_executor.cc
         FROM [[  for (const uint32_t* const poison : endpoint_.copyPoisons()) queue.awaitAtLeast(poison, 0);]]
         TEST copy_faults_test FILTER CopyFaults.NoOperation*
         SHOWS "ranks.isIdle")
mutation(lanes_do_not_come_back_to_the_callers_stream
         FILE src/executor/copy/copy_executor.cc
         FROM [[  for (CopyLane& lane : part.lanes) lane.end();
  streams_->join(part.stream, part.streams);]]
         TO [[  for (CopyLane& lane : part.lanes) lane.end();]]
         SANITIZER thread TEST copy_plans_test FILTER CopyOperations.DoNotOvertake*
         SHOWS "data race [^\n]*copyRows")
mutation(peers_are_not_told_of_a_failure
         FILE src/executor/copy/watcher.cc
         FROM [[  if (notice) tellPeers(queue, *notice);]]
         TEST copy_faults_test FILTER CopyFaults.NoOperation*
         SHOWS "ranks.isIdle|ranks.failureOf")
mutation(words_stay_closed_after_a_failure
         FILE src/executor/copy/watcher.cc
         FROM [[        queue.write(endpoint.here(peer).copyCredit(channel, slot), 0);]]
         TEST copy_faults_test FILTER CopyFaults.AbortEndsAll*
         SHOWS "timeout")
mutation(wrong_bytes_of_copies_are_not_told
         FILE src/executor/copy/probe.cc
         FROM [[      return {ProbeState::Wrong, i};]]
         TO [[      break;]]
         TEST copy_probe_test FILTER CopyProbes.OfAPairThatLies*
         SHOWS "arrived wrong")
mutation(flag_of_a_probe_by_copies_is_not_asked_for
         FILE src/executor/copy/probe.cc
         FROM [[  if (*seen_.data() != number_) return {ProbeState::Late};]]
         TEST copy_probe_test FILTER CopyProbes.OfAPeer*
         SHOWS "timeout")
mutation(streams_wait_for_equal_words
         FILE src/executor/copy/stream_queue.cc
         FROM [[CU_STREAM_WAIT_VALUE_GEQ | waitFlags_]]
         TO [[CU_STREAM_WAIT_VALUE_EQ | waitFlags_]]
         TEST copy_faults_test FILTER CopyFaults.AbortEndsAll*
         SHOWS "timeout")

# ---- Loading, for which CUDA may wait for what runs: kernels are loaded before any of them waits for another.

# The emulation loads a kernel too when it is asked how many blocks of it there is room for.
mutation(kernels_of_calls_are_not_loaded_at_set_up
         FILE src/executor/kernel/residency.cc
         FROM [[    device::loadKernels({&loaded, 1}, device);
    int each = 0;
    TUTTI_CUDA(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&each, kernel, kMostThreadsPerBlock,
                                                             kMostSharedBytes));]]
         TO [[    int each = 4;]]
         TEST cuda_interpreter_test FILTER Numbers.OfAllTypes*
         SHOWS "nothing has loaded [^\n]*interpret<")
mutation(kernels_that_add_are_not_loaded_at_set_up
         FILE src/executor/copy/copy_executor.cc
         FROM [[    device::loadKernels({&fold, 1}, endpoint.device());]]
         TEST copy_plans_test FILTER All/CopyPlans.*/1
         SHOWS "nothing has loaded [^\n]*foldPiece<")
mutation(kernel_of_a_probe_is_not_loaded_at_set_up
         FILE transports/p2p/endpoint.cc
         FROM [[  device::loadKernels({&kernel, 1}, device);]]
         TEST cuda_launches_test FILTER Connecting.HonestPairsStay
         SHOWS "nothing has loaded [^\n]*probePeers")
