"""Runs the cases of modules on ranks: run.py --ranks 2 collectives_cases ...

The ranks have emulated GPUs, or with --backend tutti tensors on the CPU.

Prints each case, and at the end how many ran and passed. --only PATTERN runs those whose name has it, --list lists.
"""

import argparse
import gc
import importlib
import os
import sys
import time
import traceback

import torch
import torch.distributed as dist

import ranks as processes
import rendezvous
from cases import ALL


def _open_group(number, count, folder, backend):
    if backend == "tutti":
        torch.manual_seed(0)
        dist.init_process_group(
            backend, store=rendezvous.store(folder, number, count), rank=number, world_size=count
        )
        return
    torch.cuda.set_device(number)
    torch.manual_seed(0)
    dist.init_process_group(
        f"cpu:gloo,cuda:{backend}", store=rendezvous.store(folder, number, count), rank=number, world_size=count
    )


def keep_output(path):
    """What this process says goes to that file."""
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(file, 1)
    os.dup2(file, 2)


def _run_case(case):
    try:
        case.run()
    except Exception:
        return traceback.format_exc()
    return ""


class Runner:
    def __init__(self, count, backend):
        self.count, self.backend, self.failed, self.ran = count, backend, [], 0

    def _describe(self, number, folder):
        """To cases, and to what of PyTorch reads these variables."""
        os.environ.update(RANK=str(number), WORLD_SIZE=str(self.count), LOCAL_RANK=str(number))
        os.environ.update(CASE_FOLDER=folder, CASE_BACKEND=self.backend)

    def note(self, name, errors, seconds):
        self.ran += 1
        print(f"{'FAILED' if errors else 'ok':6} {name} ({self.count} ranks, {seconds:.2f} s)", flush=True)
        if errors:
            self.failed.append(name)
            print("\n".join(errors), flush=True)

    def run_together(self, module, cases):
        """In the same processes; in new ones from the next case on where one went wrong."""
        while cases:
            done = self._run_until_failure(module, cases)
            cases = cases[done:]

    def _run_until_failure(self, module, cases):
        with processes.shared_folder() as folder:

            def body(number, pipe):
                self._describe(number, folder)
                _open_group(number, self.count, folder, self.backend)
                for case in cases:
                    pipe.send(_run_case(case))
                    if not pipe.recv():
                        return
                dist.destroy_process_group()

            team = processes.fork(self.count, body)
            for index, case in enumerate(cases):
                errors = self._one(module, team, case)
                last = errors or index + 1 == len(cases)
                if not errors:
                    for rank in team:
                        rank.pipe.send(True)
                if last:
                    self._end(module, team, errors)
                    return index + 1

    def _one(self, module, team, case):
        start = time.monotonic()
        messages, silent = processes.receive(team, case.seconds)
        errors = [f"rank {number}:\n{text}" for number, text in sorted(messages.items()) if text]
        errors += [f"rank {rank.number} is silent after {case.seconds} s" for rank in silent]
        errors += [f"rank {number} ended in the middle" for number, text in messages.items() if text is None]
        self.note(f"{module}.{case.name}", errors, time.monotonic() - start)
        return errors

    def _end(self, module, team, errors):
        if errors:
            processes.kill(team, "is not needed any more")
            return
        start = time.monotonic()
        late = processes.wait_for_end(team)
        wrong = [f"rank {rank.number} {rank.how()}" for rank in team if rank.status != 0]
        processes.kill(late, f"has not ended within {processes.EXIT_SECONDS} s of its last case")
        self.note(f"{module}.end", wrong, time.monotonic() - start)

    def run_alone(self, module, case):
        """In processes of its own; the ranks of case.dies end without a result."""
        start = time.monotonic()
        with processes.shared_folder() as folder:

            def body(number, pipe):
                self._describe(number, folder)
                if case.says:
                    keep_output(self._said(folder, number))
                if self.backend != "tutti":
                    torch.cuda.set_device(number)
                pipe.send(_run_case(case))

            team = processes.fork(self.count, body)
            messages, silent = processes.receive(team, case.seconds)
            errors = [f"rank {number}:\n{text}" for number, text in sorted(messages.items()) if text]
            errors += [f"rank {rank.number} is silent after {case.seconds} s" for rank in silent]
            late = silent or processes.wait_for_end(team)
            processes.kill(late, "takes too long")
            errors += [f"rank {of.number} {of.how()}" for of in team if not self._ended_well(of, case, messages)]
            errors += self._unsaid(folder, case)
        self.note(f"{module}.{case.name}", errors, time.monotonic() - start)

    @staticmethod
    def _said(folder, number):
        return os.path.join(folder, f"said-{number}")

    def _unsaid(self, folder, case):
        """What ranks should have said, and have not."""
        errors = []
        for number, texts in case.says.items():
            with open(self._said(folder, number), errors="replace") as file:
                said = file.read()
            if not any(text in said for text in texts):
                errors.append(f"rank {number} has said none of {texts}, but:\n{said}")
        return errors

    @staticmethod
    def _ended_well(rank, case, messages):
        if rank.number in case.dies:
            return rank.status not in (None, 0)
        return rank.status == 0 and messages.get(rank.number) is not None


def prepare(backend):
    """What must be kept while the cases run."""
    if backend == "tutti":
        import tutti.torch

        return tutti.torch
    import cpu_operations

    return cpu_operations.install()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ranks", type=int, required=True)
    parser.add_argument("--backend", choices=ALL, default="nccl")
    parser.add_argument("--only", default="")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("modules", nargs="+")
    arguments = parser.parse_args()
    registrations = prepare(arguments.backend)
    gc.freeze()  # what is there by now is not collected in each rank that ends
    runner = Runner(arguments.ranks, arguments.backend)
    for module in arguments.modules:
        cases = importlib.import_module(module).CASES
        cases = [case for case in cases if arguments.only in case.name and arguments.ranks in case.ranks]
        cases = [case for case in cases if arguments.backend in case.backends]
        if arguments.list:
            print("\n".join(f"{module}.{case.name}" for case in cases))
            continue
        runner.run_together(module, [case for case in cases if not case.alone])
        for case in cases:
            if case.alone:
                runner.run_alone(module, case)
    del registrations
    passed = runner.ran - len(runner.failed)
    print(f"{runner.ran} cases with {arguments.ranks} ranks of {arguments.backend}: {passed} passed", flush=True)
    for name in runner.failed:
        print(f"failed: {name}", flush=True)
    if runner.failed or (runner.ran == 0 and not arguments.list):
        sys.exit(1)


if __name__ == "__main__":
    main()
