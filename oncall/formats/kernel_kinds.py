"""The vocabulary of events that kernel logs and metrics give: kind, family, meaning, fields.

Fields that every kernel event has are `ts` (ISO 8601 with what the line held: maybe no year, maybe no zone), `uptime_s`
(seconds of the kernel's own clock) and `host`; some lines add those of `_RARE`. GPU and switch addresses (`pci`) are
`dddd:bb:dd`, those of other devices keep their function.
"""

_TIME = "ts uptime_s host"
_RARE = "delta_s dated_ts since_dated_s kmsg_priority kmsg_seq via repeated"
_EVERY = f"{_TIME} {_RARE}"
_XID = (
    "xid known pci uuid gpu_instance compute_instance pid process text caused_by_xid channel sm sm_scope esr mmu "
    "phys_addr partition subpartition row_address link registers containment unit unit_codes reset_required "
    "drain_reset error_string info gsp_gpu_index timeout_s function_no function sequence gsp_pc gsp_task ecc_counts "
    "recovery nvlink5 nvlink5_decode truncated stands_for_at_most"
)
_ALERT = (
    "name state fingerprint starts_at ends_at updated_at silenced_by inhibited_by muted_by receivers labels annotations"
)

_TABLE: tuple[tuple[str, str, str, str], ...] = (
    ("xid", "kernel", "the NVIDIA driver reports an error by number", _XID),
    ("sxid", "kernel", "an NVSwitch reports an error by number", "sxid known switch switch_unit pci verdict link "
     "text first severity_code engine sub_engine data"),
    ("gpu_lost", "kernel", "a GPU is gone from the bus", "pci pci_id uuid implied_xid same_incident_as_line"),
    ("gpu_uuid_map", "kernel", "which UUID has which address", "pci uuid"),
    ("gpu_serial", "kernel", "a GPU board's serial number", "pci serial"),
    ("gsp_heartbeat_timeout", "kernel", "a GPU's firmware processor shows no life", "gsp_gpu_index"),
    ("gsp_rate_limit", "kernel", "from here on one of n GSP errors is printed", "pci one_of_every"),
    ("rm_init_failed", "kernel", "the driver could not start a GPU", "pci uuid codes"),
    ("nvrm_assert", "kernel", "a check inside the driver failed", "expr status status_code src_file src_line"),
    ("peermem_invalid_context", "kernel", "GPUDirect RDMA memory was freed under a transfer", ""),
    ("driver_loaded", "kernel", "the NVIDIA driver was loaded", "version open_module"),
    ("aer", "kernel", "a PCIe port received an error report", "port device severity requester_id"),
    ("aer_detail", "kernel", "what the reporting device says", "device driver severity layer agent "
     "vendor_device status mask bits"),
    ("aer_recovery_failed", "kernel", "PCIe recovery of a port's devices failed", "port"),
    ("aer_unrecoverable", "kernel", "a device's driver cannot recover from PCIe errors", "device"),
    ("aer_link_reset", "kernel", "a PCIe link was reset", "port result"),
    ("dpc", "kernel", "a PCIe port cut its device off", "port status source"),
    ("pcie_hotplug_link", "kernel", "a PCIe slot's link changed", "port slot state"),
    ("nic_link", "kernel", "a network link went up or down", "device ifname state"),
    ("mlx5_port_module", "kernel", "cable or transceiver event", "device level module event"),
    ("mlx5_slot_power", "kernel", "the PCIe slot gives too little power", "device watts"),
    ("mlx5_temperature", "kernel", "the adapter is hot", "device sensors"),
    ("mlx5_cmd_error", "kernel", "the adapter refused a command", "device command opcode status syndrome err"),
    ("mlx5_health", "kernel", "the adapter's health is bad", "device text"),
    ("oom_invoked", "kernel", "memory ran out for a process", "by"),
    ("oom_kill_constraint", "kernel", "under which limit", "constraint task pid oom_memcg task_memcg cpuset"),
    ("oom_kill", "kernel", "the process that was killed for it", "scope pid process total_vm_kb anon_rss_kb "
     "file_rss_kb shmem_rss_kb"),
    ("mce", "kernel", "a machine check", "logged cpu bank status fatal"),
    ("edac", "kernel", "host memory errors, corrected (CE) or not (UE)", "mc count type error label"),
    ("ghes", "kernel", "firmware reports a hardware error", "source severity"),
    ("memory_failure", "kernel", "a bad page was taken out of use", "pfn page result"),
    ("memory_failure_kill", "kernel", "a process was killed for a bad page", "pfn process pid"),
    ("cpu_thermal", "kernel", "a CPU slows down for heat", "cpu sensor events"),
    ("thermal_shutdown", "kernel", "a sensor is so hot that the machine turns itself off", "zone sensor celsius"),
    ("hung_task", "kernel", "a task sleeps uninterruptibly for too long", "process pid seconds state"),
    ("soft_lockup", "kernel", "a CPU does not schedule", "cpu seconds process pid"),
    ("hard_lockup", "kernel", "a CPU takes no interrupts", "cpu"),
    ("rcu_stall", "kernel", "a CPU holds up RCU", "flavour"),
    ("segfault", "kernel", "a process crashed", "process pid library"),
    ("trap", "kernel", "a process did what the CPU forbids", "process pid trap library"),
    ("nfs_not_responding", "kernel", "an NFS server does not answer", "server mode"),
    ("nfs_ok", "kernel", "it answers again", "server"),
    ("lustre_error", "kernel", "a Lustre request failed", "target operation node rc"),
    ("lustre_lost", "kernel", "a Lustre connection is lost", "target node"),
    ("lustre_restored", "kernel", "it is back", "target node"),
    ("lustre_evicted", "kernel", "the server threw this client out", "target"),
    ("sample", "metrics", "one value of a metric", "metric value at gpu uuid pod namespace container device port host "
     "pci state labels"),
    ("xid_metric_change", "metrics", "the Xid gauge took a code", "host gpu uuid at since old new"),
    ("xid_metric_reset", "metrics", "it fell to 0, as when its exporter starts", "host gpu uuid at since old"),
    ("query_error", "metrics", "a query failed", "error_type error"),
    ("alert", "metrics", "an alert of Alertmanager", _ALERT),
)  # fmt: skip

KERNEL_KINDS: tuple[tuple[str, str, str, str], ...] = tuple(
    (name, family, means, f"{_EVERY} {said}" if family == "kernel" else said) for name, family, means, said in _TABLE
)
"""Rows of name, family, meaning and the fields that an event of the kind may have, parted by spaces."""
