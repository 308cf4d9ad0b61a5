"""The vocabulary of what can be wrong. Those of Flight Recorder stand in `oncall.flight_recorder` too."""

from collections.abc import Mapping

KINDS: Mapping[str, str] = {
    "none": "nothing hangs",
    "missing_collective": "the rank skipped a collective that its peers issued",
    "extra_collective": "the rank issued a collective that its peers did not",
    "size_mismatch": "same sequence number, another element count",
    "dtype_mismatch": "same sequence number, another data type",
    "type_mismatch": "same sequence number, another operation",
    "split_mismatch": "all_to_all splits that do not agree pairwise",
    "uneven_iterations": "ranks loop a different number of times",
    "early_exit": "the rank left the loop and waits in a closing collective",
    "stuck_before_collective": "the host has not issued what the others wait for: Python, data, a lock",
    "in_launch": "recorded but not enqueued: the host is inside the launch call",
    "gpu_stalled": "issued like its peers, but still holds an operation that they finished",
    "p2p_mismatch": "a send without its receive, or the reverse",
    "cycle": "groups used in opposite orders by different ranks",
    "transport_stall": "everyone joined, nobody finishes: library, network card, switch",
    "host_frozen": "the process or its host is stopped",
    "process_lost": "the process is gone",
    "blocked_in_kernel": "the process waits uninterruptibly in the kernel: a file system, a driver",
    "data_stall": "the rank waits for its data loader",
    "init_stuck": "the others wait for the rank in initialisation, where it has not arrived",
    "different_collectives": "ranks wait in different collectives; which is wrong is not decided",
    "restarting": "the job is starting again, not hung",
    "job_gone": "no training process is left anywhere",
    "gpu_fault": "the kernel reports a fault of the GPU, its link or its memory",
    "host_fault": "the kernel reports a fault of the host, its network or its storage",
    "watchdog_timeout": "a collective ran into its time limit",
    "progress": "when the last step ended, and whether steps still end",
    "observation": "something seen that explains nothing by itself",
}
