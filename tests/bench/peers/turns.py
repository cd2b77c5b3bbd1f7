# SPDX-License-Identifier: Apache-2.0
"""The frame of a peer: answers lines of standard input with one JSON line each, so that the driver can time it in turn with others."""
import argparse
import json
import statistics
import sys
import time


def arguments():
    """What every peer is started with."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--check")
    return parser.parse_args()


def timed(step, wait, seconds, sample):
    """Median and relative spread in ms of calls of `step`. A sample lasts `sample` seconds at least and ends with `wait()`."""
    def several(count):
        start = time.perf_counter()
        for _ in range(count):
            step()
        wait()
        return (time.perf_counter() - start) / count

    for _ in range(3):
        once = several(1)
    count = max(1, min(500, int(sample / max(once, 1e-7))))
    times, start = [], time.perf_counter()
    while len(times) < 5 or time.perf_counter() - start < seconds:
        times.append(several(count))
    times.sort()
    n = len(times)
    median = statistics.median(times)
    return {"ms": median * 1e3, "spread": (times[n * 3 // 4] - times[n // 4]) / 2 / median, "steps": n * count}


def serve(about, prepare):
    """prepare(request) -> (step, wait, sample). The last request stays prepared."""
    held = step = None
    answers, sys.stdout = sys.stdout, sys.stderr  # what libraries print is no answer
    print(json.dumps({"ready": True, **about}), file=answers, flush=True)
    for line in sys.stdin:
        request = json.loads(line)
        seconds = request.pop("seconds", 0.5)
        key = json.dumps(request, sort_keys=True)
        answer = {}
        try:
            if key != held:
                held = step = None
                start = time.perf_counter()
                step = prepare(request)
                step[0]()  # compilers work when the first call is made
                step[1]()
                answer["prepare_ms"] = (time.perf_counter() - start) * 1e3
                held = key
            answer.update(timed(*step[:2], seconds, step[2]))
        except Exception as e:  # one case that a library refuses does not end the others
            held = step = None
            answer["error"] = f"{type(e).__name__}: {e}"[:400]
        print(json.dumps(answer), file=answers, flush=True)
