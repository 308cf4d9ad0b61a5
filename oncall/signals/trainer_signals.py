"""The signals of the trainer and its processes, as `oncall exporter` exposes them: `train_<name>`."""

from oncall.signals.signal import Kind, Layer, Signal, Source, plain_query

PREFIX = "train_"


def _train(name: str, unit: str, layer: Layer, text: str, kind: Kind = Kind.GAUGE) -> Signal:
    metric = PREFIX + name
    return Signal(name, metric, kind, unit, layer, Source.ONCALL, text, plain_query(metric, kind, "$train"))


TRAINER_FIELDS: tuple[Signal, ...] = (
    _train("step", "steps", Layer.TASK, "Last completed training step"),
    _train("loss", "1", Layer.TASK, "Training loss of the last step that told one"),
    _train("grad_norm", "1", Layer.TASK, "Global gradient norm before clipping"),
    _train("param_norm", "1", Layer.TASK, "Global norm of the parameters"),
    _train("lr", "1", Layer.TASK, "Learning rate"),
    _train("loss_scale", "1", Layer.TASK, "Loss scale of mixed precision"),
    _train("skipped", "steps", Layer.TASK, "Steps whose update was skipped"),
    _train("num_zeros_in_grad", "1", Layer.TASK, "Gradient elements that are zero"),
    _train("max_attn_logit", "1", Layer.TASK, "Largest attention logit"),
    _train("consumed_samples", "samples", Layer.TASK, "Position in the data: samples consumed so far"),
    _train("step_time_s", "s", Layer.PROCESS, "Wall time of the last step"),
    _train("tps", "tokens/s", Layer.TASK, "Tokens a second on one GPU"),
    _train("tflops", "TFLOP/s", Layer.TASK, "Achieved model TFLOP/s on one GPU"),
    _train("mfu", "percent", Layer.TASK, "Model FLOPs utilisation against the nominal peak"),
    _train("mfu_baseline", "percent", Layer.TASK, "Model FLOPs utilisation that this run reached when it was accepted"),
    _train("data_wait_s", "s", Layer.PROCESS, "Time of the last step spent waiting for data"),
    _train("comm_wait_s", "s", Layer.PROCESS, "Time of the last step spent waiting in collectives"),
    _train("mem_allocated_peak", "bytes", Layer.PROCESS, "Peak of allocated_bytes.all of the caching allocator"),
    _train("mem_reserved_peak", "bytes", Layer.PROCESS, "Peak of reserved_bytes.all of the caching allocator"),
    _train("mem_inactive_split", "bytes", Layer.PROCESS, "inactive_split_bytes.all: free but split, so not returned"),
    _train("num_alloc_retries", "1", Layer.PROCESS, "cudaMalloc retries after emptying the cache, since the start"),
    _train("num_device_alloc", "1", Layer.PROCESS, "cudaMalloc calls since the start"),
    _train("num_device_free", "1", Layer.PROCESS, "cudaFree calls since the start"),
    _train("ckpt_duration_s", "s", Layer.TASK, "Duration of the last checkpoint save"),
    _train("ckpt_baseline_s", "s", Layer.TASK, "Duration of a checkpoint save when this run was accepted"),
    _train("ckpt_failed_total", "1", Layer.TASK, "Checkpoint saves that failed", Kind.COUNTER),
    _train("restart_total", "1", Layer.TASK, "Restarts of the job by its launcher", Kind.COUNTER),
    _train("effective_fraction", "ratio", Layer.TASK, "Useful training time over wall time, as the run reports it"),
    _train("finished", "bool", Layer.TASK, "1 once the trainer says that it ended as planned"),
)
"""What a trainer may write, one JSON object a step; the field is the name. Any other numeric field is exposed too."""

OBSERVED: tuple[Signal, ...] = (
    _train(
        "last_step_completed_timestamp_seconds", "unix s", Layer.TASK, "When the last step was completed, by the record"
    ),
    _train("loss_is_finite", "bool", Layer.TASK, "0 when the last loss told was NaN or infinite, else 1"),
    _train("step_time_s_p50", "s", Layer.PROCESS, "Median wall time of the last 20 steps of this rank"),
    _train("span_seconds", "s", Layer.PROCESS, "Duration of the last span of this name"),
    _train("span_errors_total", "1", Layer.PROCESS, "Spans of this name that ended in an exception", Kind.COUNTER),
    _train("grad_norm_spikes_total", "1", Layer.TASK, "Steps whose gradient norm left its neighbours", Kind.COUNTER),
    _train(
        "data_backwards_total", "1", Layer.TASK, "Steps that consumed data from before where they should", Kind.COUNTER
    ),
    _train("ckpt_shorter_of_two_s", "s", Layer.TASK, "The shorter of the last two checkpoint saves"),
    _train("log_bytes_total", "bytes", Layer.PROCESS, "Bytes that this rank wrote to stdout and stderr", Kind.COUNTER),
    _train("attempt_start_timestamp_seconds", "unix s", Layer.TASK, "When torchrun made the newest attempt's folder"),
    _train("writers", "processes", Layer.PROCESS, "Processes that hold one of the run's files open for writing"),
)
"""What the exporter finds out by itself from the trainer's files."""
