"""Communicators: making them, ending them, threads, and what happens when calls fail."""

from __future__ import annotations

import contextlib
import os
import pathlib
import pickle
import signal
import socket
import threading
import time
import types

import numpy
import pytest
import tutti

from ranks import DEADLINE, on_threads


def test_split_and_subset() -> None:
    def body(comm: tutti.Communicator) -> None:
        half = comm.split(comm.rank % 2, -comm.rank)
        assert half is not None and half.size == 2
        assert half.all_gather(numpy.array([comm.rank])).tolist() == [comm.rank % 2 + 2,
                                                                      comm.rank % 2]
        assert (comm.split(0 if comm.rank else -1, 0) is None) == (comm.rank == 0)
        if comm.rank in (1, 3):
            assert comm.subset([1, 3]).all_reduce(numpy.ones(1)).tolist() == [2.0]

    on_threads(4, body)


def test_grow() -> None:
    ids: list[tutti.UniqueId] = []
    has_id = threading.Event()
    sums: list[float] = []

    def newcomer() -> None:
        assert has_id.wait(DEADLINE)
        with tutti.Communicator.create(id=ids[0], rank=2, size=3) as comm:
            sums.append(comm.all_reduce(numpy.ones(1))[0])

    def body(comm: tutti.Communicator) -> None:
        if comm.rank == 0:
            ids.append(comm.grow_id(network=False))
            has_id.set()
        with comm.grow(3, ids[0] if comm.rank == 0 else None) as larger:
            sums.append(larger.all_reduce(numpy.ones(1))[0])
        assert comm.all_reduce(numpy.ones(1))[0] == 2.0

    thread = threading.Thread(target=newcomer, daemon=True)
    thread.start()
    on_threads(2, body)
    thread.join(DEADLINE)
    assert sums == [3.0] * 3


def test_suspend_and_resume() -> None:
    def body(comm: tutti.Communicator) -> None:
        comm.barrier()
        suspended = comm.suspend()
        assert comm.rank in (0, 1)
        with pytest.raises(tutti.InvalidUsage, match="closed"):
            comm.barrier()
        with suspended.resume() as again:
            assert again.all_reduce(numpy.ones(1))[0] == 2.0
        with pytest.raises(tutti.InvalidUsage, match="resumed already"):
            suspended.resume()

    on_threads(2, body)


def test_abort_reaches_others_and_shrink_goes_on() -> None:
    def body(comm: tutti.Communicator) -> None:
        if comm.rank == 1:
            comm.abort()
        with pytest.raises(tutti.Aborted) as raised:
            while True:
                comm.barrier()
        assert raised.value.code == "aborted" and raised.value.rank == comm.rank
        assert raised.value.host == socket.gethostname()
        failure = comm.async_error()
        assert isinstance(failure, tutti.Aborted) and failure.rank == comm.rank
        with comm.shrink() as smaller:
            assert smaller.size == 3 and smaller.async_error() is None
            assert smaller.all_reduce(numpy.ones(1))[0] == 3.0

    on_threads(3, body)


def test_mismatch_names_the_other_rank() -> None:
    def body(comm: tutti.Communicator) -> None:
        with pytest.raises(tutti.Mismatch) as raised:
            comm.all_reduce(numpy.ones(3 + comm.rank))
            comm.barrier()
        assert raised.value.rank == comm.rank and raised.value.peer == 1 - comm.rank

    on_threads(2, body)


def test_timeout() -> None:
    first, second = tutti.Communicator.local(2, timeout=0.3)
    with pytest.raises(tutti.Timeout) as raised:
        first.barrier()
    assert isinstance(raised.value, TimeoutError) and raised.value.peer == 1
    first.close()
    second.close()


@pytest.mark.parametrize("name", ["timeout", "setup_timeout", "straggler"])
@pytest.mark.parametrize("seconds", [float("inf"), float("nan"), 1e300, -1])
def test_refuses_times_out_of_range(name: str, seconds: float) -> None:
    with pytest.raises(tutti.InvalidArgument, match=f"^{name}: .* out of range"):
        tutti.Communicator.create(**{name: seconds})


def test_a_timeout_of_0_is_the_default() -> None:
    def body(comm: tutti.Communicator) -> None:
        if comm.rank == 0:
            time.sleep(0.3)
        comm.barrier()

    first, second = tutti.Communicator.local(2, timeout=0)
    threads = [threading.Thread(target=body, args=(comm,)) for comm in (first, second)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(DEADLINE)
    assert first.async_error() is None and second.async_error() is None
    first.close()
    second.close()


def test_synchronize_waits_for_the_calls_behind_a_failed_one() -> None:
    """On the main thread, where the wait can be interrupted."""
    late, never = tutti.Communicator.local(2, timeout=0.3)
    first, second = tutti.Communicator.local(2, timeout=DEADLINE)
    stream = tutti.Stream()
    late.barrier(stream=stream)
    result = first.all_reduce(numpy.ones(3), stream=stream)
    failed = threading.Event()

    def partner() -> None:
        assert failed.wait(DEADLINE)
        time.sleep(0.3)
        second.all_reduce(numpy.ones(3))

    thread = threading.Thread(target=partner, daemon=True)
    thread.start()
    while late.async_error() is None:
        time.sleep(0.01)
    failed.set()
    with pytest.raises(tutti.Timeout):
        stream.synchronize()
    assert result.tolist() == [2.0] * 3
    thread.join(DEADLINE)
    for comm in (late, never, first, second):
        comm.close()


def test_synchronize_does_not_wait_for_later_calls() -> None:
    """On the main thread: another thread enqueues a call during the wait."""
    first, second = tutti.Communicator.local(2, timeout=DEADLINE)
    third, fourth = tutti.Communicator.local(2, timeout=DEADLINE)
    stream = tutti.Stream()
    result = first.all_reduce(numpy.ones(3), stream=stream)

    def call() -> None:
        third.barrier(stream=stream)
        second.all_reduce(numpy.ones(3))

    thread = threading.Thread(target=call, daemon=True)

    def enqueue(_: int, frame: types.FrameType | None) -> None:
        if frame is not None and frame.f_code.co_name == "synchronize":
            signal.setitimer(signal.ITIMER_REAL, 0)
            thread.start()

    before = signal.signal(signal.SIGALRM, enqueue)
    signal.setitimer(signal.ITIMER_REAL, 0.2, 0.2)
    stream.synchronize()
    signal.signal(signal.SIGALRM, before)
    assert result.tolist() == [2.0] * 3
    thread.join(DEADLINE)
    assert not stream.query()
    fourth.barrier()
    stream.synchronize()
    for comm in (first, second, third, fourth):
        comm.close()


def test_streams_raise_failures() -> None:
    first, second = tutti.Communicator.local(2, timeout=0.3)
    stream = tutti.Stream()
    first.barrier(stream=stream)
    with pytest.raises(tutti.Timeout):
        stream.synchronize()
    stream.synchronize()  # the failure has been seen
    first.close()
    second.close()


def test_errors_are_pickled() -> None:
    error = tutti.PeerLost("rank 1 (pid 7) was lost; rank 0 (pid 6) noticed", 0)
    copy = pickle.loads(pickle.dumps(error))
    assert (str(copy), copy.rank, copy.peer, copy.code) == (str(error), 0, 1, "peer lost")
    assert isinstance(copy, ConnectionError) and isinstance(copy, tutti.Error)


def test_closed() -> None:
    comm, = tutti.Communicator.local(1)
    assert "rank 0" in comm.describe() and repr(comm) == "<tutti.Communicator rank 0 of 1>"
    assert comm.hosts == [0] and comm.memory >= 0
    comm.close()
    comm.close()
    assert (comm.rank, comm.size) == (0, 1)
    with pytest.raises(tutti.InvalidUsage, match="closed"):
        comm.all_reduce(numpy.ones(1))


def test_close_leaves_also_with_prepared_calls() -> None:
    first, second = tutti.Communicator.local(2, timeout=DEADLINE)
    prepared = first.prepare("all_reduce", numpy.ones(3))
    first.close()
    with pytest.raises(tutti.PeerLost):
        second.barrier()
    with pytest.raises(tutti.InvalidUsage, match="prepared call is closed"):
        prepared.start()
    second.close()


def test_close_leaves_also_with_open_windows() -> None:
    first, second = tutti.Communicator.local(2, timeout=DEADLINE)
    windows = [first.window(numpy.ones(3)), second.window(numpy.ones(3))]
    first.close()
    with pytest.raises(tutti.PeerLost):
        second.barrier()
    with pytest.raises(tutti.InvalidUsage, match="window is closed"):
        windows[0].nbytes(0)
    second.close()


def test_close_leaves_when_calls_on_streams_have_ended() -> None:
    """Though nobody has asked the stream."""
    first, second = tutti.Communicator.local(2, timeout=DEADLINE)
    stream, other = tutti.Stream(), tutti.Stream()
    with tutti.group():
        first.barrier(stream=stream)
        second.barrier(stream=other)
    other.synchronize()
    first.close()
    with pytest.raises(tutti.PeerLost):
        second.barrier()
    assert stream.query()
    second.close()


def test_a_window_may_be_closed_while_its_size_is_awaited() -> None:
    first, second = tutti.Communicator.local(2, timeout=DEADLINE)
    window = first.window(numpy.ones(2))

    def others() -> None:
        time.sleep(0.2)
        window.close()
        second.window(numpy.ones(3))

    thread = threading.Thread(target=others)
    thread.start()
    assert window.nbytes(1) == 24
    thread.join(DEADLINE)
    first.close()
    second.close()


def test_a_key_of_another_type_is_not_shown() -> None:
    with pytest.raises(tutti.InvalidArgument, match="pre_shared_key: it is no bytes") as raised:
        tutti.Communicator.create(pre_shared_key="secret")  # type: ignore[arg-type]
    assert "secret" not in str(raised.value)


@pytest.mark.parametrize("name, value", [
    ("deterministic", "no"), ("signals", 2**40), ("rank", 1.5),
    ("algorithm", 7), ("timeout", "soon")])
def test_refuses_options_of_other_types(name: str, value: object) -> None:
    with pytest.raises(tutti.InvalidArgument, match=f"^{name}: .* is no "):
        tutti.Communicator.create(**{name: value})  # type: ignore[arg-type]


def test_an_algorithm_file_may_be_a_path(tmp_path: pathlib.Path) -> None:
    with pytest.raises(tutti.InvalidArgument, match="plan.json"):
        tutti.Communicator.local(1, algorithm_file=tmp_path / "plan.json")


def test_objects_are_refused_in_a_group() -> None:
    comm, = tutti.Communicator.local(1)
    for call in (comm.all_gather_object, comm.broadcast_object):
        with pytest.raises(tutti.InvalidUsage, match="cannot be in a group"), tutti.group():
            call({"rank": 0})
        assert call(1) in (1, [1])
    comm.close()


@pytest.mark.parametrize("call", ["barrier", "stream", "shrink", "group"])
def test_a_handler_in_a_wait_makes_no_calls(call: str) -> None:
    """It would wait for what it holds up. The outer wait goes on, to its end by abort()."""
    first, second = tutti.Communicator.local(2, timeout=DEADLINE)
    refusals: list[str] = []

    def handle(_: int, frame: types.FrameType | None) -> None:
        try:
            if call == "barrier":
                first.barrier()
            if call == "stream":
                first.barrier(stream=tutti.Stream())
            if call == "shrink":
                first.shrink()
            if call == "group":
                with tutti.group():
                    first.barrier()
        except tutti.InvalidUsage as refused:
            refusals.append(str(refused))
        first.abort()

    before = signal.signal(signal.SIGALRM, handle)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.2)
        with pytest.raises(tutti.Aborted):
            first.all_reduce(numpy.ones(3))
    finally:
        signal.signal(signal.SIGALRM, before)
    assert len(refusals) == 1 and "handler of signals" in refusals[0]
    first.close()
    second.close()


@pytest.mark.parametrize("raises", [False, True])
def test_ctrl_c_ends_the_wait_of_a_stream_that_goes(raises: bool) -> None:
    first, second = tutti.Communicator.local(2, timeout=DEADLINE)

    def call() -> None:
        streams = [tutti.Stream()]
        first.all_reduce(numpy.ones(3), stream=streams[0])
        if raises:
            [0].remove(streams.pop())  # type: ignore[arg-type]  # it goes when the error is set

    before = signal.signal(signal.SIGALRM, lambda *_: os.kill(os.getpid(), signal.SIGINT))
    begin = time.monotonic()
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.3)
        with pytest.raises(KeyboardInterrupt):
            with contextlib.suppress(ValueError):
                call()
            time.sleep(1)
    finally:
        signal.signal(signal.SIGALRM, before)
    assert time.monotonic() - begin < DEADLINE / 2
    first.close()
    second.close()


def test_what_a_handler_raises_comes_before_the_error_of_a_call() -> None:
    """Also where it runs while the exception of the call is made."""
    from tutti import _errors
    first, second = tutti.Communicator.local(2, timeout=0.2)
    made = _errors.error_of

    def interrupted(*_: object) -> tutti.Error:
        raise KeyboardInterrupt

    _errors.error_of = interrupted  # type: ignore[assignment]
    try:
        with pytest.raises(KeyboardInterrupt):
            first.barrier()
    finally:
        _errors.error_of = made
    first.close()
    second.close()


def test_exceptions_in_a_with_block_free_the_others() -> None:
    first, second = tutti.Communicator.local(2)

    def leave() -> None:
        with pytest.raises(KeyError), second:
            raise KeyError

    thread = threading.Thread(target=leave)
    thread.start()
    with pytest.raises(tutti.Aborted):
        first.barrier()
    thread.join(DEADLINE)
    first.close()


def test_two_communicators_of_two_threads_run_at_the_same_time() -> None:
    """One thread waits in a call, without the GIL, until the other one has called 200 times."""
    waiting, partner = tutti.Communicator.local(2)
    counted: list[float] = []

    def wait() -> None:
        counted.append(waiting.all_reduce(numpy.ones(1))[0])

    thread = threading.Thread(target=wait, daemon=True)
    thread.start()
    on_threads(2, lambda comm: [comm.all_reduce(numpy.ones(10)) for _ in range(200)])
    assert not counted
    partner.all_reduce(numpy.ones(1))
    thread.join(DEADLINE)
    assert counted == [2.0]
    waiting.close()
    partner.close()


def test_ids() -> None:
    made = tutti.UniqueId.create(network=False)
    assert len(made.hex) == 256 and made == tutti.UniqueId(made.hex)
    assert made.hex not in repr(made)
    assert tutti.UniqueId.at("localhost:7777") == tutti.UniqueId.at("localhost:7777")
    with pytest.raises(tutti.InvalidArgument):
        tutti.UniqueId("12")
    with pytest.raises(tutti.Error):
        tutti.Communicator.create(id=made, rank=3, size=2, setup_timeout=1.0)


def test_nested_groups_and_events_of_threads() -> None:
    def body(comm: tutti.Communicator) -> None:
        with tutti.group():
            with tutti.group():
                first = comm.all_reduce(numpy.ones(2))
            second = comm.all_reduce(first, first)
        assert second.shape == (2,)
        group = tutti.Group()
        with group, pytest.raises(tutti.InvalidUsage, match="open"):
            group.__enter__()
        with pytest.raises(tutti.InvalidUsage, match="not open"):
            group.__exit__(None, None, None)

    on_threads(2, body)


def test_a_group_ends_on_its_thread() -> None:
    group = tutti.Group()
    tried = threading.Event()

    def other() -> None:
        group.__enter__()
        assert tried.wait(DEADLINE)
        group.__exit__(None, None, None)

    thread = threading.Thread(target=other, daemon=True)
    thread.start()
    while True:  # until it is open
        with pytest.raises(tutti.InvalidUsage) as raised:
            group.__exit__(None, None, None)
        if "not open" not in str(raised.value):
            break
        time.sleep(0.01)
    assert "another thread has opened this group" in str(raised.value)
    comm, = tutti.Communicator.local(1)  # this thread is in no group
    assert comm.all_reduce(numpy.ones(2)).tolist() == [1.0, 1.0]
    tried.set()
    thread.join(DEADLINE)
    assert not thread.is_alive()
    comm.close()
