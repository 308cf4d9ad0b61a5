"""The signals of GPUs, links and hosts, as dcgm-exporter and node_exporter name them.

Metric names: dcgm-exporter etc/default-counters.csv (3.3 to 4.5; rows commented out there must be switched on: both
ECC counters, NVLink error counters, row remap pending, clocks event reasons); node_exporter 1.6 to 1.10.
"""

from oncall.signals.signal import Kind, Layer, Signal, Source, plain_query

CLOCKS_EVENT_REASONS: dict[int, str] = {
    0x001: "gpu idle",
    0x002: "applications clocks setting",
    0x004: "sw power cap",
    0x008: "hw slowdown",
    0x010: "sync boost",
    0x020: "sw thermal slowdown",
    0x040: "hw thermal slowdown",
    0x080: "hw power brake slowdown",
    0x100: "display clocks setting",
}
"""Bits of DCGM_FI_DEV_CLOCKS_EVENT_REASONS, which are those of NVML (nvmlClocksEventReasons, driver R550)."""


def _dcgm(name: str, field: str, unit: str, text: str, kind: Kind = Kind.GAUGE) -> Signal:
    metric = f"DCGM_FI_{field}"
    query = plain_query(metric, kind, "$dcgm")
    return Signal(name, metric, kind, unit, Layer.HARDWARE, Source.DCGM, text, query)


def _node(name: str, metric: str, unit: str, text: str, kind: Kind = Kind.GAUGE) -> Signal:
    query = plain_query(metric, kind, "$node")
    return Signal(name, metric, kind, unit, Layer.HARDWARE, Source.NODE, text, query)


GPU_LINK_COUNTERS = ("nvlink_crc_flit", "nvlink_crc_data", "nvlink_replay", "nvlink_recovery", "pcie_replay")
"""Errors of a GPU's own links."""

PORT_COUNTERS = ("ib_link_downed", "ib_link_recovery", "ib_receive_errors", "ib_transmit_discards")
"""Errors of a host's InfiniBand ports."""

DCGM_SIGNALS: tuple[Signal, ...] = (
    _dcgm("sm_clock", "DEV_SM_CLOCK", "MHz", "SM clock"),
    _dcgm("gpu_temp", "DEV_GPU_TEMP", "celsius", "GPU temperature"),
    _dcgm("memory_temp", "DEV_MEMORY_TEMP", "celsius", "HBM temperature"),
    _dcgm("power", "DEV_POWER_USAGE", "W", "Power draw"),
    Signal(
        "clocks_event_reasons",
        "DCGM_FI_DEV_CLOCKS_EVENT_REASONS",
        Kind.GAUGE,
        "bitmask",
        Layer.HARDWARE,
        Source.DCGM,
        "Why the clocks are held down; named CLOCK_THROTTLE_REASONS before DCGM 3.3",
        "DCGM_FI_DEV_CLOCKS_EVENT_REASONS{$dcgm} or DCGM_FI_DEV_CLOCK_THROTTLE_REASONS{$dcgm}",
    ),
    Signal(
        "xid",
        "DCGM_FI_DEV_XID_ERRORS",
        Kind.GAUGE,
        "Xid code",
        Layer.HARDWARE,
        Source.DCGM,
        "Code of the last Xid, 0 for none since the driver was loaded; never to be counted",
        "max without (err_code, err_msg) (DCGM_FI_DEV_XID_ERRORS{$dcgm})",
    ),
    _dcgm("ecc_sbe", "DEV_ECC_SBE_VOL_TOTAL", "errors", "Corrected ECC errors since driver load", Kind.COUNTER),
    Signal(
        "ecc_dbe",
        "DCGM_FI_DEV_ECC_DBE_VOL_TOTAL",
        Kind.COUNTER,
        "errors",
        Layer.HARDWARE,
        Source.DCGM,
        "Uncorrectable ECC errors since driver load; any is too many, so the query reads the level",
        "DCGM_FI_DEV_ECC_DBE_VOL_TOTAL{$dcgm}",
    ),
    _dcgm("row_remap_pending", "DEV_ROW_REMAP_PENDING", "bool", "Rows wait for a GPU reset to be remapped"),
    _dcgm("row_remap_failure", "DEV_ROW_REMAP_FAILURE", "bool", "Remapping of rows has failed"),
    _dcgm("nvlink_crc_flit", "DEV_NVLINK_CRC_FLIT_ERROR_COUNT_TOTAL", "errors", "NVLink flit CRC errors", Kind.COUNTER),
    _dcgm("nvlink_crc_data", "DEV_NVLINK_CRC_DATA_ERROR_COUNT_TOTAL", "errors", "NVLink data CRC errors", Kind.COUNTER),
    _dcgm("nvlink_replay", "DEV_NVLINK_REPLAY_ERROR_COUNT_TOTAL", "errors", "NVLink replays", Kind.COUNTER),
    _dcgm("nvlink_recovery", "DEV_NVLINK_RECOVERY_ERROR_COUNT_TOTAL", "errors", "NVLink recoveries", Kind.COUNTER),
    _dcgm("pcie_replay", "DEV_PCIE_REPLAY_COUNTER", "errors", "PCIe replays", Kind.COUNTER),
    _dcgm("tensor_active", "PROF_PIPE_TENSOR_ACTIVE", "ratio", "Fraction of cycles with the tensor pipe active"),
    _dcgm("nvlink_tx", "PROF_NVLINK_TX_BYTES", "bytes/s", "Bytes a second sent over NVLink"),
    _dcgm("fb_used", "DEV_FB_USED", "MiB", "Framebuffer in use, as the driver sees it"),
)

NODE_SIGNALS: tuple[Signal, ...] = (
    _node("ib_link_downed", "node_infiniband_link_downed_total", "1", "Times an IB link went down", Kind.COUNTER),
    _node(
        "ib_link_recovery",
        "node_infiniband_link_error_recovery_total",
        "1",
        "Times an IB link recovered from errors",
        Kind.COUNTER,
    ),
    _node(
        "ib_receive_errors",
        "node_infiniband_port_errors_received_total",
        "packets",
        "IB packets received with an error",
        Kind.COUNTER,
    ),
    _node(
        "ib_transmit_discards",
        "node_infiniband_port_discards_transmitted_total",
        "packets",
        "Outbound IB packets discarded: port down or congested",
        Kind.COUNTER,
    ),
    _node("ib_state", "node_infiniband_state_id", "state", "IB port state: 4 is active, 1 is down"),
    _node("ib_rate", "node_infiniband_rate_bytes_per_second", "bytes/s", "Rate that an IB link came up with"),
    _node("host_memory_available", "node_memory_MemAvailable_bytes", "bytes", "Host memory that can be had"),
    _node("host_memory_total", "node_memory_MemTotal_bytes", "bytes", "Host memory"),
)
