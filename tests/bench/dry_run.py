#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""dry_run.py NEOFLOW: the benchmark's command on the CPU with a few items of each step, as a machine without a GPU runs all of them."""
import importlib.machinery
import importlib.util
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import types

HERE = os.path.dirname(os.path.abspath(__file__))
NEOFLOW = sys.argv[1]


def bench(out, *options, neoflow=NEOFLOW):
    done = subprocess.run([sys.executable, os.path.join(HERE, "bench"), "--device", "cpu", "--neoflow", neoflow, "--out", out,
                           "--without", "torch,jax", *options], capture_output=True, text=True)
    print(done.stdout + done.stderr)
    return done


def loaded(folder, name="results.json"):
    with open(os.path.join(folder, name)) as f:
        return json.load(f)


FEW = ("--items", "machine,peers,figure4,net milstm,kernels scatter,programs,memcheck scatter,losses,attn,milstm_seq28,capconv_mat8",
       "--programs", "3", "--seed", "7")


def few_items_of_every_step(folder):
    out = os.path.join(folder, "few")
    done = bench(out, *FEW)
    assert done.returncode == 0, done.returncode
    results = loaded(out)
    assert results["format"] == 1 and results["device"] == "cpu" and results["small"] is True and "T" in results["date"]
    assert list(results["steps"]) == ["about", "check", "sanitizer", "ops-f32", "ops-f16", "ops-bf16", "train-1", "profile"], list(results["steps"])
    assert results["summary"]["failed"] == []
    items = {name: step["items"] for name, step in results["steps"].items()}
    assert all(step["complete"] for step in results["steps"].values())
    assert items["about"]["machine"]["doctor"]["devices"][0]["name"] == "cpu"
    for name in ("example figure4.nf", "net milstm", "kernels scatter", "programs 7..9"):
        row = items["check"][name]
        assert row["ok"] and row["compared"] >= 2 and row["differ"] == 0, row
    assert items["check"]["programs 7..9"]["seed"] == 7
    assert items["sanitizer"]["memcheck scatter"]["skipped"] == "needs a GPU"
    for type in ("f32", "f16", "bf16"):
        row = items["ops-" + type]["gemm:attn_128x128x64"]
        assert row["ms"] > 0 and row["flops"] == 2 * 128 * 128 * 64 and row["peers"] == {}, row
    for net in ("milstm_seq28", "capconv_mat8"):
        row = items["train-1"][net]
        assert row["first_step_s"] > 0 and row["ms"] > 0 and row["curve"] and row["steps"] > 0, row
        assert items["profile"][net]["launches"] >= len(items["profile"][net]["kernels"]) > 0
    with open(os.path.join(out, "results.md")) as f:
        text = f.read()
    for part in ("## Steps", "### bf16", "### Batch 1", "| milstm_seq28 |", "## Profile", "a dry run"):
        assert part in text, part
    return out


def the_same_command_goes_on(folder, out):
    before = loaded(out)["steps"]
    os.remove(os.path.join(out, "profile.json"))
    state = loaded(out, "check.json")
    del state["items"]["net milstm"]
    with open(os.path.join(out, "check.json"), "w") as f:
        json.dump(state, f)
    done = bench(out, *FEW)
    assert done.returncode == 0
    assert "check 2/" in done.stdout and "net milstm" in done.stdout and "figure4" not in done.stdout
    after = loaded(out)["steps"]
    assert after["train-1"] == before["train-1"] and list(after["profile"]["items"]) == list(before["profile"]["items"])
    other = bench(out, "--seed", "8")
    assert other.returncode == 2 and "name another --out" in other.stderr
    none = bench(os.path.join(folder, "none"), *FEW, "--minutes", "1e-9")
    assert none.returncode == 1 and "stopped by --minutes" in none.stdout and loaded(os.path.join(folder, "none"))["steps"]["check"]["items"] == {}


def a_failed_step_does_not_end_the_others(folder):
    """A program that ends at once where a notebook is profiled, and in the middle of a line where operators are timed."""
    broken = os.path.join(folder, "broken")
    with open(broken, "w") as f:
        f.write(f'#!/bin/sh\ncase "$1 $2" in\nprofile*) echo "no profile today" >&2; exit 3 ;;\n"bench ops") printf \'{{"cases": \'; exit 0 ;;\nesac\n'
                f'exec "{NEOFLOW}" "$@"\n')
    os.chmod(broken, 0o755)
    out = os.path.join(folder, "failing")
    done = bench(out, "--items", "machine,cases,attn,milstm_seq28,net lltm", neoflow=broken)
    assert done.returncode == 1
    results = loaded(out)
    assert results["summary"]["failed"] == ["ops-f32: cases", "ops-f16: cases", "ops-bf16: cases", "profile: milstm_seq28"], results["summary"]
    assert results["steps"]["profile"]["items"]["milstm_seq28"]["failed"] == "exit status 3: no profile today"
    assert results["steps"]["check"]["items"]["net lltm"]["ok"] and results["steps"]["train-1"]["items"]["milstm_seq28"]["ms"] > 0
    again = bench(out, "--items", "milstm_seq28", "--only", "profile", "--again")
    assert again.returncode == 1 and "profile: milstm_seq28" not in loaded(out)["summary"]["failed"]


def a_lost_device_ends_its_process_alone(folder):
    """The first program of a run loses the device where its seed is 2."""
    losing = os.path.join(folder, "losing")
    with open(losing, "w") as f:
        f.write(f'#!/bin/sh\ncase "$*" in\n*"--seed 2 "*) n=1; lost=\'"gone"\' ;;\n*"--programs 4"*) n=2; lost=\'"gone"\' ;;\n*) n=1; lost=null ;;\nesac\n'
                'echo "{\\"compared\\": $n, \\"failed\\": 0, \\"worst\\": 0.5, \\"seed\\": 1, \\"programs\\": $n, \\"lost\\": $lost, \\"rows\\": []}"\n')
    os.chmod(losing, 0o755)
    out = os.path.join(folder, "lost")
    assert bench(out, "--only", "check", "--items", "programs", "--programs", "4", neoflow=losing).returncode == 1
    row = loaded(out)["steps"]["check"]["items"]["programs 1..4"]
    assert row["compared"] == 4 and row["ok"] is False and row["lost"] == ["gone"], row


def what_was_started_ends_with_it(folder):
    hanging, pid = os.path.join(folder, "hanging"), os.path.join(folder, "pid")
    with open(hanging, "w") as f:
        f.write(f'#!/bin/sh\necho $$ >"{pid}.new"; mv "{pid}.new" "{pid}"; exec sleep 1000\n')
    os.chmod(hanging, 0o755)
    process = subprocess.Popen([sys.executable, os.path.join(HERE, "bench"), "--device", "cpu", "--neoflow", hanging, "--without", "torch,jax",
                                "--out", os.path.join(folder, "ended")])
    while not os.path.exists(pid):
        assert process.poll() is None
        time.sleep(0.01)
    process.terminate()
    assert process.wait() == 128 + signal.SIGTERM
    with open(pid) as f:
        child = int(f.read())
    try:
        os.kill(child, 0)
    except ProcessLookupError:
        return
    raise AssertionError(f"{child} goes on")


def the_program():
    loader = importlib.machinery.SourceFileLoader("bench", os.path.join(HERE, "bench"))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("bench", loader))
    loader.exec_module(module)
    return module


def what_is_being_started_ends_with_it():
    """The signal comes before Popen has returned."""
    module, popen, children = the_program(), subprocess.Popen, []

    def asked_at_once(*command, **options):
        children.append(popen(*command, **options))
        os.kill(os.getpid(), signal.SIGTERM)
        return children[-1]

    before = signal.signal(signal.SIGTERM, module.asked_to_end)
    subprocess.Popen = asked_at_once
    try:
        module.started(["sleep", "1000"])
        raise AssertionError("it went on")
    except SystemExit as e:
        assert e.code == 128 + signal.SIGTERM
    finally:
        subprocess.Popen = popen
        signal.signal(signal.SIGTERM, before)
    try:
        os.kill(children[0].pid, 0)
        children[0].kill()
        raise AssertionError("the child goes on")
    except ProcessLookupError:
        pass
    sleeping = module.started(["sh", "-c", "kill -TERM $$; sleep 1000"])
    assert sleeping.wait() == -signal.SIGTERM, "a child has no signal held back"


def programs_that_hang_or_break_off():
    module = the_program()

    def fails(f):
        try:
            f()
        except module.Failed as e:
            return str(e)
        raise AssertionError("it did not fail")

    assert fails(lambda: module.call(["sleep", "1000"], 1)) == "took longer than 1 s"
    assert fails(lambda: module.call(["sh", "-c", "echo why >&2; exit 4"], 1000)) == "exit status 4: why"
    turns = module.Turns(["sh", "-c", 'read l; echo \'{"ms": 1}\'; read l; echo \'{"error": "no such case"}\'; read l; echo gone >&2; exit 1'])
    assert turns.ask({}, 1000, hello=False) == {"ms": 1}
    assert fails(lambda: turns.ask({}, 1000, hello=False)) == "no such case"
    assert fails(lambda: turns.ask({}, 1000, hello=False)).startswith("ended")
    assert turns.ask({}, 1000, hello=False) == {"ms": 1}, "it is started anew"
    turns.stop()
    with tempfile.TemporaryDirectory() as folder:
        now = module.time.monotonic()
        run = types.SimpleNamespace(out=folder, deadline=now + 500, o=types.SimpleNamespace(again=False, verbose=False))

        def cut(left):
            run.deadline = now  # the time is over
            raise module.Failed("took longer than its rest")

        def refused(left):
            raise module.Failed("no such case")

        assert not module.take(run, "s", 1000, {"good": lambda left: {}, "refused": refused, "cut": cut, "later": refused})
        assert module.loaded(os.path.join(folder, "s.json"))["items"] == {"good": {}, "refused": {"failed": "no such case"}}
        run.deadline = now + 500
        assert module.take(run, "s", 1000, {"good": refused, "refused": cut, "cut": lambda left: {"ms": 1}, "later": refused})
        assert module.loaded(os.path.join(folder, "s.json"))["items"]["cut"] == {"ms": 1}
    given = {"LD_LIBRARY_PATH": "/driver", "HOME": "/home"}
    assert module.with_libraries("/nvrtc", given) == {"LD_LIBRARY_PATH": "/nvrtc:/driver", "HOME": "/home"}, "the driver is found as before"
    assert module.with_libraries(None, given) == given and module.with_libraries(None, {}) == {}
    assert module.with_libraries("/nvrtc", {}) == {"LD_LIBRARY_PATH": "/nvrtc"}
    assert module.geometric([1.0, 4.0]) == 2.0
    falling = [(s / 10, 10.0 - s) for s in range(9)] + [(1 + s / 10, 1.0) for s in range(9)]
    assert module.Bench.crossing(falling, 0.5, 1.0) == 1.0, "five of nine reports"
    assert module.Bench.crossing(falling, 0.5, 0.5) is None
    assert module.Bench.crossing(falling, 0.5, 100.0) == 0.5


with tempfile.TemporaryDirectory() as folder:
    what_is_being_started_ends_with_it()
    programs_that_hang_or_break_off()
    out = few_items_of_every_step(folder)
    a_lost_device_ends_its_process_alone(folder)
    what_was_started_ends_with_it(folder)
    the_same_command_goes_on(folder, out)
    a_failed_step_does_not_end_the_others(folder)
print("fine")
