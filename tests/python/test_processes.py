"""Ranks as processes: started by `tutti run`, killed, interrupted and forked. And the command."""

from __future__ import annotations

import pathlib
import shutil
import subprocess
import sys

import pytest
import tutti
from tutti import _install

from ranks import DEADLINE, environment, on_processes

EXAMPLES = pathlib.Path(__file__).parents[2] / "docs" / "examples" / "python"


def lines(result: subprocess.CompletedProcess[str], code: int = 0) -> list[str]:
    assert result.returncode == code, result.stdout + result.stderr
    return sorted(line.partition("] ")[2] for line in result.stdout.splitlines())


@pytest.mark.parametrize("ranks", (1, 2, 4))
def test_collectives(ranks: int) -> None:
    result = on_processes("rank_scripts.py", "collectives", ranks=ranks)
    assert lines(result) == [f"right on rank {r} of {ranks}" for r in range(ranks)]


def test_a_killed_rank_is_named() -> None:
    result = on_processes("rank_scripts.py", "killed", ranks=3)
    assert lines(result, 128 + 9) == [f"rank {r} lost rank 1, sum of the rest 2" for r in (0, 2)]


@pytest.mark.parametrize("how", ("wait", "group", "signals", "stream", "split"))
def test_ctrl_c_ends_a_wait_and_others_hear(how: str) -> None:
    result = on_processes("rank_scripts.py", "interrupted", how, ranks=2)
    assert lines(result) == ["rank 0: KeyboardInterrupt, then Aborted", "rank 1: Aborted"]


def test_ctrl_c_ends_set_up() -> None:
    script = """
import os, signal, time, tutti
signal.signal(signal.SIGALRM, lambda *_: os.kill(os.getpid(), signal.SIGINT))
signal.setitimer(signal.ITIMER_REAL, 0.3)
begin = time.monotonic()
try:
    tutti.Communicator.create(id=tutti.UniqueId.create(network=False), rank=0, size=2)
except KeyboardInterrupt:
    assert time.monotonic() - begin < 20
    print("ended")
"""
    result = subprocess.run([sys.executable, "-c", script], env=environment(), text=True,
                            capture_output=True, timeout=DEADLINE, check=False)
    assert (result.returncode, result.stdout) == (0, "ended\n"), result.stderr


def test_handlers_run_during_a_wait() -> None:
    result = on_processes("rank_scripts.py", "handled", ranks=2)
    assert lines(result) == ["rank 0: handled 1", "rank 1: handled 0"]


def test_forked_children_are_refused() -> None:
    result = on_processes("rank_scripts.py", "forked", ranks=2)
    assert lines(result) == ["rank 0: 2 after a fork", "rank 1: 2 after a fork"]


def test_a_process_may_end_with_open_communicators() -> None:
    result = on_processes("rank_scripts.py", "left_open", ranks=2)
    assert lines(result) == ["rank 0: ends", "rank 1: ends"]
    assert result.stderr == ""


def test_a_process_may_end_while_a_daemon_thread_calls() -> None:
    for _ in range(5):
        result = on_processes("rank_scripts.py", "daemon", ranks=2)
        assert lines(result) == ["rank 0: ends", "rank 1: ends"]


def test_the_command() -> None:
    script = "import sys, tutti._command; sys.argv[1:] = ['--version']; tutti._command.main()"
    result = subprocess.run([sys.executable, "-c", script], env=environment(), text=True,
                            capture_output=True, timeout=DEADLINE, check=True)
    assert tutti.__version__ in result.stdout


def test_the_installation() -> None:
    assert (pathlib.Path(_install.include()) / "tutti" / "communicator.h").is_file()
    major, minor, _ = tutti.__version__.split(".")
    assert _install.library().endswith(f"libtutti.so.{major}.{minor}")
    header = pathlib.Path(_install.include()) / "tutti" / "version.h"
    assert f'TUTTI_VERSION "{tutti.__version__}"' in header.read_text()


def example(name: str, *arguments: str, ranks: int) -> list[str]:
    command = [_install.command(), "run", "-n", str(ranks), "--", sys.executable,
               str(EXAMPLES / name), *arguments]
    return lines(subprocess.run(command, env=environment(), text=True, capture_output=True,
                                timeout=DEADLINE, check=False))


def test_example_first_collective() -> None:
    assert example("first_collective.py", ranks=3) == [
        f"rank {r} of 3: the sum is [3. 6. 9.]" for r in range(3)]


def test_example_pi() -> None:
    assert example("pi.py", "100000", ranks=4) == ["pi is 3.1415926536, by 4 ranks"]


def test_example_halo_exchange() -> None:
    printed = [example("heat.py", "60", ranks=ranks) for ranks in (1, 3)]
    assert printed[0] == printed[1] and "after 60 steps" in printed[0][0]


@pytest.mark.parametrize("name", ["pi.py", "heat.py"])
@pytest.mark.parametrize("arguments", [[], ["many"], ["-1"], ["1", "2"]])
def test_examples_say_how_they_are_used(name: str, arguments: list[str]) -> None:
    result = subprocess.run([sys.executable, str(EXAMPLES / name), *arguments], env=environment(),
                            text=True, capture_output=True, timeout=DEADLINE, check=False)
    assert result.returncode == 1
    assert result.stderr.startswith(f"usage: tutti run -n RANKS -- python {name} STEPS, a whole")
    assert result.stderr.count("\n") == 1


def import_it(**variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", "import tutti"], env=environment() | variables,
                          text=True, capture_output=True, timeout=DEADLINE, check=False)


def test_a_build_folder_comes_before_the_package(tmp_path: pathlib.Path) -> None:
    """The extension and the library are of one build, also where a package is installed."""
    if _install.build_folder() is None:
        pytest.skip("this is an installed package")
    shutil.copytree(pathlib.Path(tutti.__file__).parent, tmp_path / "tutti")
    (tmp_path / "tutti" / "_core.py").write_text("raise ImportError('that of the package')")
    result = import_it(PYTHONPATH=str(tmp_path))
    assert result.returncode == 0, result.stderr


def test_a_build_folder_without_the_extension(tmp_path: pathlib.Path) -> None:
    result = import_it(TUTTI_BUILD_DIR=str(tmp_path))
    assert f"extension is missing at {tmp_path}" in result.stderr
    assert result.stderr.rstrip().endswith("build the target tutti_python")
