"""The anytime contract: whatever ends a run, its best so far is written, and the exit code says what ended it."""

from __future__ import annotations

import json
import os
import signal
import time
from pathlib import Path

import pytest

from icml.cli.anytime import Anytime


def _records(path: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


@pytest.mark.parametrize(
    ("signum", "code"),
    [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGUSR1, 143)],
    ids=str,
)
def test_a_signal_ends_the_run_with_a_result(cli, signum: signal.Signals, code: int) -> None:
    process = cli.start_until_ready("toy-loop")
    time.sleep(0.2)
    process.send_signal(signum)
    out, err = process.communicate(timeout=30)
    assert process.returncode == code
    assert err == ""
    result = json.loads(out)
    assert result["best"] > 0
    assert result["stopped_by"] == signal.Signals(signum).name


@pytest.mark.parametrize("signum", [signal.SIGTERM, signal.SIGUSR1])
def test_the_same_signal_again_does_not_lose_the_result(cli, signum: signal.Signals) -> None:
    process = cli.start_until_ready("toy-loop", "-o", "result.json")
    for _ in range(3):
        process.send_signal(signum)
        time.sleep(0.05)
    process.communicate(timeout=30)
    assert process.returncode == 143
    assert "best" in json.loads((cli.folder / "result.json").read_text())


def test_ctrl_c_after_sigterm_waits_for_the_result_too(cli) -> None:
    process = cli.start_until_ready("toy-loop")
    process.send_signal(signal.SIGTERM)
    time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    out, _ = process.communicate(timeout=30)
    assert (process.returncode, json.loads(out)["stopped_by"]) == (143, "SIGTERM")


def test_a_second_ctrl_c_ends_at_once(cli) -> None:
    process = cli.start_until_ready("toy-loop", "--stubborn")
    process.send_signal(signal.SIGINT)
    time.sleep(0.3)
    assert process.poll() is None  # it does not look at should_stop
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=30)
    assert (process.returncode, out, err) == (130, "", "icml toy-loop: interrupted\n")


def test_the_time_limit_ends_the_run_as_done(cli) -> None:
    start = time.monotonic()
    done = cli.run("toy-loop", "--time-limit", "0.5s")
    assert done.returncode == 0
    assert json.loads(done.stdout)["stopped_by"] is None
    assert 0.5 <= time.monotonic() - start < 20


def test_a_run_that_ends_by_itself_keeps_its_own_code(cli) -> None:
    done = cli.run("toy-loop", "--steps", "2", "--code", "1")
    assert (done.returncode, json.loads(done.stdout)["best"]) == (1, 2)


def test_the_trace_grows_while_the_run_goes_on(cli) -> None:
    trace = cli.folder / "trace.jsonl"
    trace.write_text("old\n")
    process = cli.start_until_ready("toy-loop", "--trace", trace)
    deadline = time.monotonic() + 20
    while len(trace.read_text().splitlines()) < 3 and time.monotonic() < deadline:
        time.sleep(0.02)
    assert process.poll() is None
    process.send_signal(signal.SIGTERM)
    out, _ = process.communicate(timeout=30)
    records = _records(trace)
    assert [record["lower"] for record in records] == list(range(1, json.loads(out)["best"] + 1))
    assert all(list(record) == ["t", "lower", "upper"] for record in records)
    times = [record["t"] for record in records]
    assert times == sorted(times)
    assert 0 < times[0] < times[-1]


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no /dev/full here")
def test_a_trace_that_cannot_be_written_costs_a_warning_only(cli) -> None:
    process = cli.start_until_ready("toy-loop", "--steps", "5", "--trace", "/dev/full")
    out, err = process.communicate(timeout=30)
    assert process.returncode == 0
    assert json.loads(out)["best"] == 5
    assert err == "icml: warning: /dev/full: No space left on device; the trace ends here\n"


def test_signals_that_the_caller_ignores_stay_ignored(cli) -> None:
    def ignore() -> None:
        signal.signal(signal.SIGINT, signal.SIG_IGN)

    process = cli.start_until_ready("toy-loop", "--steps", "20", preexec_fn=ignore)
    process.send_signal(signal.SIGINT)
    out, _ = process.communicate(timeout=30)
    assert (process.returncode, json.loads(out)["best"]) == (0, 20)


def test_handlers_are_restored_and_the_time_counts_from_the_start_of_the_block() -> None:
    before = [signal.getsignal(signum) for signum in (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1)]
    with Anytime(time_limit=1000) as run:
        assert [signal.getsignal(s) for s in (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1)] != before
        assert not run.should_stop()
        remaining = run.remaining()
        assert remaining is not None
        assert 990 < remaining <= 1000
    assert [signal.getsignal(signum) for signum in (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1)] == before
    with Anytime(time_limit=0) as run:
        assert run.should_stop()
        assert run.exit_code() == 0
    with Anytime() as run:
        assert run.remaining() is None
        assert not run.should_stop()
        run.record(lower=1)  # no trace, no harm


def test_handlers_are_restored_after_an_error() -> None:
    before = signal.getsignal(signal.SIGTERM)
    with pytest.raises(ZeroDivisionError), Anytime():
        raise ZeroDivisionError
    assert signal.getsignal(signal.SIGTERM) is before
