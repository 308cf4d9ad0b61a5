"""All probes of the nodes, by name."""

from collections.abc import Mapping

from oncall.probes.probe import Probe
from oncall.run.model import Run
from oncall.run.nodes import expand_hosts
from oncall.run.ranks import RankMap

_LOG_TAIL = 65_536
_LOG_SEARCH = 16 * 1024 * 1024
_MOST_LOG_FILES = 80
_KERNEL_TAIL = 524_288
_PAUSE = {"PAUSE_S": "3"}
"""Between two looks at counters: long enough for errors of a bad link to show."""
_RAS_HOSTS = 3
"""How many nodes are asked for NCCL's account: any one knows the whole job, and one may be the faulty one."""
_RAS_WAIT_S = 12
"""NCCL gathers for 5 s, and 5 s more where processes do not answer (src/ras/ras_internal.h, 2.24)."""
_DEBUG_WAIT_S = 12
"""A rank that holds the interpreter lock for good never answers; others do within milliseconds."""
_SAMPLES = 5


def _none(_run: Run, _ranks: RankMap, _host: str) -> Mapping[str, str]:
    return {}


def _logs(run: Run, _ranks: RankMap, _host: str) -> Mapping[str, str]:
    return {
        "LOGS": run.paths.logs or "",
        "CHECKPOINTS": run.paths.checkpoints or "",
        "TAIL_BYTES": str(_LOG_TAIL),
        "SEARCH_BYTES": str(_LOG_SEARCH),
        "MOST_FILES": str(_MOST_LOG_FILES),
    }


def _kernel(_run: Run, _ranks: RankMap, _host: str) -> Mapping[str, str]:
    return {"TAIL_BYTES": str(_KERNEL_TAIL)}


def _stacks(run: Run, _ranks: RankMap, _host: str) -> Mapping[str, str]:
    own = {"PY_SPY": run.processes.py_spy or "", "PY_SPY_BASE64": "", "NATIVE": "", "ONLY": "", "SAMPLES": "1"}
    return {**own, **_debug_server(run)}


def _debug_server(run: Run) -> Mapping[str, str]:
    return {"DEBUG_SERVER": str(run.processes.debug_server or ""), "DEBUG_WAIT_S": str(_DEBUG_WAIT_S)}


def _samples(run: Run, ranks: RankMap, host: str) -> Mapping[str, str]:
    return {**_stacks(run, ranks, host), "SAMPLES": str(_SAMPLES), "DEBUG_SERVER": ""}


def _dumps(run: Run, ranks: RankMap, host: str) -> Mapping[str, str]:
    own = ranks.on(host)
    return {
        "PREFIX": run.paths.dumps or "",
        "RANKS": f" {' '.join(map(str, own))} " if own else "",
        "FETCH": "0",
        "REDUCER": "",
        **_debug_server(run),
    }


def _fetch(run: Run, ranks: RankMap, host: str) -> Mapping[str, str]:
    return {**_dumps(run, ranks, host), "FETCH": "1"}


def _twice(_run: Run, _ranks: RankMap, _host: str) -> Mapping[str, str]:
    return _PAUSE


def _storage(run: Run, _ranks: RankMap, _host: str) -> Mapping[str, str]:
    paths = run.paths
    return {**_PAUSE, "LOGS": paths.logs or "", "CHECKPOINTS": paths.checkpoints or "", "DUMPS": paths.dumps or ""}


def _ras(run: Run, _ranks: RankMap, host: str) -> Mapping[str, str]:
    asked = host in expand_hosts(run.nodes)[:_RAS_HOSTS]
    return {**_PAUSE, "ASK": "1" if asked else "0", "WAIT_S": str(_RAS_WAIT_S)}


def _request(run: Run, _ranks: RankMap, _host: str) -> Mapping[str, str]:
    return {"PIPES": run.paths.pipes or "", "RANKS": ""}


_ALL = (
    Probe(
        name="processes",
        asks="Which training processes are there, and in what state?",
        script="processes.sh",
        variables=_none,
        by_hand="ps -eo pid,ppid,stat,wchan:20,etimes,rss,args | grep -E 'RANK|python'",
    ),
    Probe(
        name="logs",
        asks="What did the training processes write last?",
        script="logs.sh",
        variables=_logs,
        by_hand="tail -n 50 {logs}/*/attempt_*/*/stderr.log",
    ),
    Probe(
        name="stacks",
        asks="Where does each training process stand?",
        script="stacks.sh",
        functions="debug_server.sh",
        variables=_stacks,
        by_hand="for p in $(pgrep -f python); do py-spy dump --pid $p; done",
    ),
    Probe(
        name="stack_samples",
        asks="Where do the suspects' training threads stand, several times over?",
        script="stacks.sh",
        functions="debug_server.sh",
        variables=_samples,
        by_hand="for n in 1 2 3 4 5; do py-spy dump --pid PID; sleep 0.3; done",
    ),
    Probe(
        name="kernel",
        asks="What did the kernel report?",
        script="kernel.sh",
        variables=_kernel,
        by_hand="dmesg -T | grep -iE 'xid|oom|mlx5|hung|aer|not responding'",
    ),
    Probe(
        name="gpus",
        asks="Which GPU is which?",
        script="gpus.sh",
        variables=_none,
        by_hand="nvidia-smi -L",
        deadline_s=12.0,
    ),
    Probe(
        name="dumps",
        asks="Which Flight Recorder dumps are there?",
        script="flight_recorder.sh",
        functions="debug_server.sh",
        variables=_dumps,
        by_hand="ls -l --full-time {dumps}*",
    ),
    Probe(
        name="flight_recorder",
        asks="What do the Flight Recorder dumps hold?",
        script="flight_recorder.sh",
        functions="debug_server.sh",
        variables=_fetch,
        by_hand="oncall fr {dumps}*",
        deadline_s=60.0,
    ),
    Probe(
        name="storage",
        asks="Is there room where the job writes, and does anybody write checkpoints?",
        script="storage.sh",
        variables=_storage,
        by_hand="df -h {checkpoints}; df -i {checkpoints}; ls -lt {checkpoints} | head",
        deadline_s=60.0,
    ),
    Probe(
        name="host",
        asks="Is the host short of memory, swapping, or waiting for storage?",
        script="host.sh",
        variables=_twice,
        by_hand="head /proc/pressure/*; free -g; ps -eo pid,stat,wchan:24,comm | awk '$2 ~ /^D/'",
    ),
    Probe(
        name="fabric",
        asks="Are the InfiniBand and RoCE ports up, and do their errors grow?",
        script="fabric.sh",
        variables=_twice,
        by_hand="grep . /sys/class/infiniband/*/ports/*/state /sys/class/infiniband/*/ports/*/rate; rdma statistic",
    ),
    Probe(
        name="gpu_health",
        asks="What does the driver say of the GPUs?",
        script="gpu_health.sh",
        variables=_twice,
        by_hand="nvidia-smi -q -d PERFORMANCE,ECC,ROW_REMAPPER,PAGE_RETIREMENT,TEMPERATURE; nvidia-smi nvlink -e",
        deadline_s=40.0,
    ),
    Probe(
        name="nccl_ras",
        asks="What does NCCL say of the whole job?",
        script="nccl_ras.sh",
        variables=_ras,
        by_hand="printf 'verbose status\\n' | nc -w 12 localhost 28028",
        deadline_s=45.0,
    ),
)

DUMP_REQUEST = Probe(
    name="dump_request",
    asks="Ask the ranks for a Flight Recorder dump",
    script="dump_request.sh",
    variables=_request,
    by_hand="for p in {pipes}*.pipe; do echo 1 >$p; done",
)
"""The one script that acts: it is put only after the operator has confirmed it."""

PROBES: Mapping[str, Probe] = {probe.name: probe for probe in _ALL}
"""Name → probe of the nodes."""

CHEAP = ("processes", "logs", "stacks", "kernel", "gpus", "dumps")
"""Those that are safe and cheap, and start together when a walk starts."""

SERVERS = ("alerts", "metrics", "baseline")
"""Probes that are put to Alertmanager and Prometheus; they start with the cheap ones. `baseline` follows `metrics`."""
