"""Runs that slow down, each with the signature of one cause, as a real Prometheus would have them."""

from collections.abc import Callable
from dataclasses import dataclass

from .history import CHANGED_S, History, of_host

CULPRIT = 5
SINCE = -CHANGED_S
SLOWER = 3.3


def slow_down(history: History) -> None:
    """Every rank of a synchronous job shows the same longer step."""
    for rank in range(history.world):
        for signal in ("step_time_s", "step_time_s_p50"):
            history.put(signal, history.of_rank(rank), SLOWER * history.step_s, since=SINCE)
        history.put("mfu", history.of_rank(rank), 12.3, since=SINCE)


def straggle(history: History) -> None:
    """All wait for the culprit, which alone does not wait."""
    slow_down(history)
    for rank in range(history.world):
        share = 0.01 if rank == CULPRIT else 0.74
        history.put("comm_wait_s", history.of_rank(rank), share * SLOWER * history.step_s, since=SINCE)


def throttle(history: History) -> None:
    straggle(history)
    history.put("sm_clock", history.of_gpu(CULPRIT), 1305.0, since=SINCE)
    history.put("gpu_temp", history.of_gpu(CULPRIT), 91.0, since=SINCE)
    history.put_exact("clocks_event_reasons", history.of_gpu(CULPRIT), 0x48, since=SINCE)


def lose_link_quality(history: History) -> None:
    straggle(history)
    history.grow("nvlink_replay", history.of_gpu(CULPRIT), 2.0, since=SINCE)


def lose_port_quality(history: History) -> None:
    straggle(history)
    port = {**of_host(history.host_of(CULPRIT)), "device": "mlx5_0", "port": "1"}
    history.grow("ib_link_recovery", port, 0.05, since=SINCE)


def starve(history: History) -> None:
    slow_down(history)
    for rank in range(history.world):
        history.put("data_wait_s", history.of_rank(rank), 28.0, since=SINCE)
        history.phase("fetching_batch", rank, 28.0, since=SINCE)


def fragment(history: History) -> None:
    slow_down(history)
    for rank in range(history.world):
        history.put("mem_inactive_split", history.of_rank(rank), 9.0e9, since=SINCE)
        history.grow("num_alloc_retries", history.of_rank(rank), 0.1, since=SINCE)
        history.phase("fwd_bwd", rank, 37.0, since=SINCE)


def log_more(history: History) -> None:
    slow_down(history)
    for rank in range(history.world):
        history.grow("log_bytes_total", history.of_rank(rank), 4000.0, since=SINCE)


def save_slowly(history: History) -> None:
    slow_down(history)
    for rank in range(history.world):
        history.put("ckpt_duration_s", history.of_rank(rank), 95.0, since=SINCE)


def run_out_of_memory(history: History) -> None:
    slow_down(history)
    history.put("host_memory_available", of_host("node002"), 2.0e10, since=SINCE)


def communicate_slowly(history: History) -> None:
    slow_down(history)
    for rank in range(history.world):
        history.put("comm_wait_s", history.of_rank(rank), 29.5, since=SINCE)


@dataclass(frozen=True)
class Slowdown:
    """What happens, and what a right answer says."""

    happen: Callable[[History], None]
    conclusion: str
    kind: str | None
    ranks: tuple[int, ...] = ()
    hosts: tuple[str, ...] = ()
    exit_code: int = 10


SLOWDOWNS = {
    "throttled": Slowdown(throttle, "throttled-straggler", "gpu_throttled", (5,), ("node002",)),
    "nvlink": Slowdown(lose_link_quality, "link-straggler", "link_errors", (5,), ("node002",)),
    "infiniband": Slowdown(lose_port_quality, "link-straggler", "link_errors", (5,), ("node002",)),
    "data": Slowdown(starve, "data-source", "data_slow"),
    "fragmentation": Slowdown(fragment, "fragmented", "fragmentation"),
    "logging": Slowdown(log_more, "logging-or-storage", "log_volume"),
    "checkpoint": Slowdown(save_slowly, "logging-or-storage", "checkpoint_slow"),
    "host-memory": Slowdown(run_out_of_memory, "host-memory", "host_memory", (4, 5, 6, 7), ("node002",)),
    "communication": Slowdown(communicate_slowly, "compare-traces", None, exit_code=11),
    "healthy": Slowdown(lambda _: None, "steady", "none", exit_code=0),
}
"""The causes that the series alone tell; a software straggler has stacks too."""
