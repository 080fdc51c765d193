"""Time a candidate and its peers by turns, so that what disturbs the machine disturbs all of them alike.

A round times a batch of calls of the candidate and then a batch of each peer. The figure is the median over the rounds
of the candidate's time divided by the peer's in the same round.

Threads of a pool go on asking for work for a while after a call, and take the cores from the threads of the next one:
onnxruntime's for 26 ms and TVM's for 49 ms on the machine of the README's figures. So with more than one thread there
is a pause before each batch, and a call that is not timed.

One thread stays on one core while it is timed. What it runs was compiled for all cores before, as it is for users: a
process that is held on one core from its start (``taskset``) would compile kernels that are never shared.
"""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

__all__ = ["Comparison", "Run", "compare", "ratio_of"]

Run = Callable[[], Any]
Clock = Callable[[], float]

# A batch is long against the timer's noise; all batches together are over while the machine is still the same.
_BATCH_SECONDS = 0.002
_TOTAL_SECONDS = 2.0
_ROUNDS = (3, 101)
# What takes minutes is timed once, after the run that warms up.
_LONG_SECONDS = 10.0
_PAUSE_SECONDS = 0.08


@dataclass(frozen=True)
class Comparison:
    """Medians in seconds per call, and the ratio of the candidate to each peer.

    Attributes
    ----------
    seconds : float
        The candidate's median.
    peers : mapping of str to float
        The peers' medians.
    ratios : mapping of str to float
        The median of the ratios of the rounds; below 1 the candidate is faster.
    rounds : int
    """

    seconds: float
    peers: Mapping[str, float]
    ratios: Mapping[str, float]
    rounds: int


def compare(benchmark: Any, candidate: Run, peers: Mapping[str, Run], threads: int = 1) -> Comparison | None:
    """Return how a candidate compares with its peers; None where pytest-benchmark is disabled.

    Parameters
    ----------
    benchmark : pytest_benchmark.fixture.BenchmarkFixture
        Its table gets the candidate's times; its ``extra_info``, which ``--benchmark-json`` writes, the rest.
    candidate : callable
        What is timed.
    peers : mapping of str to callable
        What it is compared with, by name.
    threads : int
        How many threads each of them runs on.
    """
    if benchmark.disabled:
        benchmark.pedantic(candidate)
        return None
    with _cores_for(threads):
        return _compare(benchmark, candidate, peers, threads)


def _compare(benchmark: Any, candidate: Run, peers: Mapping[str, Run], threads: int) -> Comparison:
    pause = _PAUSE_SECONDS if threads > 1 else 0.0
    calls = {name: _calls_per_batch(_alone(run, pause)) for name, run in {"": candidate, **peers}.items()}
    samples: dict[str, list[float]] = {name: [] for name in peers}

    def time_peers() -> None:
        for name, run in peers.items():
            samples[name].append(_seconds_per_call(_alone(run, pause), calls[name].number))
        _alone(candidate, pause)

    _alone(candidate, pause)
    one_round = sum(batch.seconds + pause for batch in calls.values())
    fewest, most = _ROUNDS if one_round < _LONG_SECONDS else (1, 1)
    rounds = max(fewest, min(most, round(_TOTAL_SECONDS / one_round)))
    benchmark.pedantic(candidate, teardown=time_peers, rounds=rounds, iterations=calls[""].number)
    own = benchmark.stats.stats.data
    comparison = Comparison(
        statistics.median(own),
        {name: statistics.median(times) for name, times in samples.items()},
        # pytest-benchmark calls once more after the last round, so there is one sample of a peer too many.
        {name: statistics.median(a / b for a, b in zip(own, times, strict=False)) for name, times in samples.items()},
        rounds,
    )
    benchmark.extra_info["peers"] = {name: (comparison.peers[name], comparison.ratios[name]) for name in peers}
    return comparison


def ratio_of(
    candidate: Run, peer: Run, threads: int = 1, seconds: float = 0.5, clock: Clock = time.perf_counter
) -> tuple[float, float]:
    """Return a candidate's median seconds per call, and the median of its ratios to a peer.

    Parameters
    ----------
    candidate, peer : callable
        What is timed.
    threads : int
        How many threads each of them runs on.
    seconds : float
        For about how long they are timed.
    clock : callable
        What tells the time. ``time.thread_time`` leaves out what else a busy machine does; it is for one thread.
    """
    with _cores_for(threads):
        return _ratio_of(candidate, peer, threads, seconds, clock)


def _ratio_of(candidate: Run, peer: Run, threads: int, seconds: float, clock: Clock) -> tuple[float, float]:
    pause = _PAUSE_SECONDS if threads > 1 else 0.0
    batches = [_calls_per_batch(_alone(run, pause), clock) for run in (candidate, peer)]
    one_round = sum(batch.seconds + pause for batch in batches)
    own, ratios = [], []
    for _ in range(max(5, min(_ROUNDS[1], round(seconds / one_round)))):
        times = [
            _seconds_per_call(_alone(run, pause), batch.number, clock)
            for run, batch in zip((candidate, peer), batches, strict=True)
        ]
        own.append(times[0])
        ratios.append(times[0] / times[1])
    return statistics.median(own), statistics.median(ratios)


@contextmanager
def _cores_for(threads: int) -> Iterator[None]:
    """Hold the calling thread, where one is timed, on the last of its cores: the first has what else goes on."""
    if threads > 1 or not hasattr(os, "sched_setaffinity"):
        yield
        return
    allowed = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {max(allowed)})
    try:
        yield
    finally:
        os.sched_setaffinity(0, allowed)


def _alone(run: Run, pause: float) -> Run:
    """Return what is run, after the threads of what ran before it have gone to sleep and its own are awake."""
    if pause:
        time.sleep(pause)
        run()
    return run


@dataclass(frozen=True)
class _Batch:
    number: int
    seconds: float


def _calls_per_batch(run: Run, clock: Clock = time.perf_counter) -> _Batch:
    """Return how many calls make a batch; running it also warms it up."""
    number = 1
    while True:
        seconds = number * _seconds_per_call(run, number, clock)
        if seconds >= _BATCH_SECONDS:
            return _Batch(number, seconds)
        number *= 4


def _seconds_per_call(run: Run, number: int, clock: Clock = time.perf_counter) -> float:
    start = clock()
    for _ in range(number):
        run()
    return (clock() - start) / number
