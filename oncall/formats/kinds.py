"""The vocabulary of events: kinds, their fields, and the names of what a training thread is doing.

Every event also has `kind`, `file` and `line` (1-based; [first, last] over several lines). Null means not known: it is
never 0, -1 or "". The one exception is `last_started`, which keeps PyTorch's own -1 for "this process measures no
starts". Units end the name (`_ms`, `_s`, `_gib`, `_pct`, `_w`). Not-finite numbers are "nan", "inf", "-inf". `ts` holds
just what the line held: a glog stamp has no year. `rank` is global, except in `nccl_timeout`, where the line prints the
rank inside the group: there `global_rank` is the global one.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from oncall.formats.kernel_kinds import KERNEL_KINDS


@dataclass(frozen=True, slots=True)
class Kind:
    """What one kind of event means, and the fields that it may have besides kind, file and line."""

    family: str
    means: str
    fields: tuple[str, ...]


_SAID = "rank ts pg_id pg_guid pg_desc pg_rank"
_COUNTERS = "last_enqueued last_started last_started_op last_completed"
_ERROR = "error nccl_version last_error peer peer_port"
_WARN = "rank host pid tid cuda_dev"
_AGENT = "ts agent_pid agent_tid"
_TITAN = "framework ts rank rank_prefix step loss loss_raw mem_gib mem_pct tps"
_STEP = (
    "framework ts rank rank_prefix step total_steps step_time_s loss losses loss_raw moe lr decoupled_lr grad_norm "
    "loss_scale global_batch_size consumed_samples skipped_samples num_zeros params_norm skipped skipped_total nan "
    "tflops_per_gpu mfu_pct tps samples_per_s mem_gib mem_pct energy_j_per_iter power_w epoch warmup"
)
_EXTREMES = " ".join(
    f"{side}_{what}"
    for what in ("round_trip_ms", "power_w", "temp_c", "util_pct", "clock_mhz", "data_ms", "tflops")
    for side in ("min", "max")
)
_TRACE = "rank host step time_us name"

_TABLE: tuple[tuple[str, str, str, str], ...] = (
    ("nccl_timeout", "nccl", "a collective ran longer than its time limit", f"{_SAID} rank_prefix global_rank seq op "
     "numel_in numel_out timeout_ms ran_ms"),
    ("watchdog_failure", "nccl", "the watchdog names the group and work that failed", f"{_SAID} seq {_COUNTERS}"),
    ("timeout_at_work", "nccl", "the same for a time-out, PyTorch 2.3 to 2.5", f"{_SAID} seq {_COUNTERS}"),
    ("watchdog_terminated", "nccl", "the watchdog thread ends; repeats_line told it first", f"{_SAID} cause seq op "
     "spoken_rank error repeats_line"),
    ("dump_signal", "nccl", "told to dump; the counters are of its own group", f"{_SAID} source source_rank "
     f"{_COUNTERS}"),
    ("dump_signal_observed", "nccl", "saw another rank's dump signal in the store", _SAID),
    ("dump_first_pg", "nccl", "the first group of this rank that signals a dump", _SAID),
    ("fr_dump_start", "nccl", "starts to write its Flight Recorder dump", f"{_SAID} include_stack_trace only_active"),
    ("fr_dump_path", "nccl", "where the dump goes", f"{_SAID} path"),
    ("fr_dump_done", "nccl", "the dump is written", _SAID),
    ("fr_disabled", "nccl", "no stack kept: the Flight Recorder is off", _SAID),
    ("heartbeat_timeout", "nccl", "the watchdog thread gave no sign of life", f"{_SAID} outstanding_works"),
    ("heartbeat_stuck", "nccl", "the watchdog thread is stuck", f"{_SAID} stuck_s outstanding_works fatal"),
    ("process_terminate", "nccl", "the process ends itself after the dump", f"{_SAID} reason"),
    ("process_takedown", "nccl", "the process is taken down to keep data consistent", _SAID),
    ("data_inconsistency_warning", "nccl", "later GPU work may use incomplete data", _SAID),
    ("gil_not_acquired", "nccl", "Python's lock was held by a thread that does not move", f"{_SAID} wait_ms"),
    ("failed_collective_stack", "nccl", "where the failed collective was issued", f"{_SAID} frames"),
    ("desync_report", "nccl", "the desync debugger's account of who lags", f"{_SAID} op seq lagging_ranks lagging_at "
     "never_joined snapshot"),
    ("nccl_async_error", "nccl", "a collective failed with an NCCL error", f"{_SAID} seq op timeout_ms {_ERROR}"),
    ("nccl_error", "nccl", "an NCCL error reached Python", f"rank ts {_ERROR}"),
    ("nccl_ib_error", "nccl", "an InfiniBand completion failed", f"{_WARN} peer peer_port status vendor_err direction"),
    ("nccl_ib_async_event", "nccl", "an InfiniBand port event", f"{_WARN} device port event"),
    ("nccl_socket_error", "nccl", "a socket to a peer failed", f"{_WARN} peer peer_port error"),
    ("gloo_error", "nccl", "gloo, the CPU backend, lost a peer or waited too long", "rank ts error peer peer_port"),
    ("elastic_worker_failed", "nccl", "a worker ended badly", f"{_AGENT} exitcode signal local_rank pid binary"),
    ("elastic_restart", "nccl", "the worker group starts again", f"{_AGENT} role state attempts_left max_restarts"),
    ("elastic_rendezvous", "nccl", "the workers have met", f"{_AGENT} role master_addr master_port restart_count "
     "group_rank group_world_size global_ranks world_size"),
    ("elastic_membership_change", "nccl", "nodes came: the group starts again", f"{_AGENT} role new_nodes group_rank"),
    ("elastic_send_signal", "nccl", "the agent signals a worker", f"{_AGENT} pid signal"),
    ("elastic_death_signal", "nccl", "the agent itself was told to end", f"{_AGENT} signal_no signal"),
    ("elastic_signal_exception", "nccl", "the agent ends by that signal", "agent_pid signal_no"),
    ("elastic_force_kill", "nccl", "a worker did not end in time", f"{_AGENT} pid from_signal to_signal"),
    ("elastic_unkillable", "nccl", "a worker outlives SIGKILL", f"{_AGENT} pid signal wait_s"),
    ("elastic_dstate_enter", "nccl", "a worker sleeps uninterruptibly", f"{_AGENT} role pid limit_s"),
    ("elastic_dstate_stuck", "nccl", "it does so for too long", f"{_AGENT} role pid limit_s stuck_s"),
    ("elastic_failure_summary", "nccl", "torchrun's last table: root cause and others", "entrypoint root_cause others"),
    ("slurm_task_exit", "nccl", "srun's word that a task ended", "host tasks reason exitcode"),
    ("step", "steps", "a training step", _STEP),
    ("validation", "steps", "an evaluation", f"{_TITAN} losses ppl epoch runtime_s"),
    ("timers", "steps", "time of each part; form pipe, minmax, max or all", "rank form timers_ms"),
    ("straggler", "steps", "extremes over the ranks, each [value, rank]", f"ts {_EXTREMES}"),
    ("straggler_list", "steps", "best or worst ranks, each [TFLOP/s, rank]", "which count ranks"),
    ("throughput", "steps", "samples a second and memory", "framework ts rank epoch micro_step step samples_per_s "
     "samples_per_s_avg mem_gb max_mem_gb"),
    ("loss_scale_overflow", "steps", "a step was skipped", "framework ts rank attempted_scale new_scale"),
    ("allocator_flushes", "steps", "PyTorch's allocator ran out and flushed", "framework ts rank count"),
    ("cuda_alloc_retries", "steps", "GPU memory allocations were retried", "ts count"),
    ("checkpoint_start", "steps", "a save begins", "framework ts step path format"),
    ("checkpoint_scheduled", "steps", "an asynchronous save is queued", "framework ts step path format"),
    ("checkpoint_done", "steps", "a save ended", "framework ts step path format seconds"),
    ("rerun_unexpected", "steps", "a result that the rerun machine did not expect", "rank step value message"),
    ("exit", "steps", "the program ends on purpose", "reason ts"),
    ("progress_bar", "steps", "newest state of a tqdm bar", "rank pct step total_steps elapsed_s s_per_it it_per_s"),
    ("train_end", "steps", "training is over", "framework rank step epoch runtime_s loss steps_per_s"),
    ("span_start", "steps", "a span of the structured log begins", f"{_TRACE} task tags duration_ms caller"),
    ("span_end", "steps", "it ends", f"{_TRACE} task tags duration_ms caller"),
    ("span_error", "steps", "it fails", f"{_TRACE} task tags duration_ms caller"),
    ("trace_scalar", "steps", "a number in the structured log", f"{_TRACE} value"),
    ("trace_instant", "steps", "a moment in the structured log", _TRACE),
    ("truncated_record", "steps", "the structured log ends inside a record", "rank"),
    ("pyspy_process", "pyspy", "the threads of one process", "rank pid parent_pid cmdline python exe threads"),
    ("pyspy_error", "pyspy", "no dump was taken", "rank error reason"),
)  # fmt: skip

KINDS: Mapping[str, Kind] = {
    name: Kind(family, means, tuple(said.split())) for name, family, means, said in (*_TABLE, *KERNEL_KINDS)
}

STANDINGS: Mapping[str, str] = {
    "collective_wait": "in a collective, or in backward() for the gradient sync: waits for its peers",
    "barrier": "in a barrier: waits for its peers",
    "nccl_init": "makes an NCCL communicator: waits for its peers to do the same",
    "store_wait": "waits in the store (TCPStore) for a peer to come up",
    "rendezvous": "waits for the group or the world to form",
    "dataloader_wait": "waits for a batch, or makes one itself",
    "checkpoint_save": "saves a checkpoint, or waits for others inside a save",
    "device_sync_item": "waits for the GPU in .item() or the like",
    "device_sync_stream": "waits for a GPU stream, event or device",
    "logging_lock": "queues for a logging handler's lock",
    "logging_write": "writes a log record: a full pipe or a dead file system blocks it",
    "lock_wait": "waits for a lock, condition, queue or thread",
    "child_wait": "waits for a child process",
    "sleep": "sleeps (seen with --native only)",
    "compile": "compiles",
    "blocked_call": "waits in a C call under the frame shown: sleep, lock, file or socket",
    "native_compute": "computes in a C call, or launches kernels",
    "python_compute": "runs Python",
}
"""Values of `where`; the last three follow from the thread's state alone."""


def kinds_text() -> str:
    """The vocabulary as `oncall read --kinds` prints it."""
    lines = [f"{__doc__}\n"]
    for name, kind in KINDS.items():
        lines.append(f"{name} ({kind.family}): {kind.means}\n    {' '.join(kind.fields)}\n")
    lines.append("\nwhere a training thread stands (summary.where):\n")
    lines += [f"  {name:<20} {means}\n" for name, means in STANDINGS.items()]
    return "".join(lines)
