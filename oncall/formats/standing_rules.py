"""The frames that tell what a training thread is doing, in the order in which they are believed.

Function and file names were read in CPython 3.11 to 3.13, PyTorch 2.1 to 2.13, Megatron-LM core 0.8 to 0.19,
DeepSpeed 0.19, torchtitan 0.2, NCCL 2.28 and the CUDA runtime, and checked on live gloo jobs of PyTorch 2.13.
"""

import re
from dataclasses import dataclass

from oncall.formats.stacks import Frame

COLLECTIVES = re.compile(
    r"(?:_?all_gather|all_reduce|_?reduce_scatter|all_to_all|gather|scatter|broadcast|reduce|barrier|monitored_barrier"
    r"|send|recv|isend|irecv|batch_isend_irecv)\w*"
)
"""Names of `torch.distributed` operations with their `_object`, `_coalesced`… variants (distributed_c10d.py)."""

C10D = re.compile(r"(?:^|/)torch/distributed/(?:distributed_c10d|_functional_collectives)\.py$")


@dataclass(frozen=True, slots=True)
class Rule:
    """`where` holds if a frame's own name and file match: any frame, or with `top` the innermost Python frame only.

    With `callee` the frame that shows it is the one called by the match: the user's code, not the library that runs it.
    """

    where: str
    func: re.Pattern[str]
    file: re.Pattern[str]
    native: bool = False
    top: bool = False
    callee: bool = False

    def fits(self, frame: Frame) -> bool:
        """Whether `frame` is one that shows this."""
        if frame.native is not self.native:
            return False
        return self.file.search(frame.file) is not None and self.func.fullmatch(frame.leaf) is not None


def _python(where: str, func: str, file: str, *, top: bool = False, callee: bool = False) -> Rule:
    return Rule(where, re.compile(func), re.compile(rf"(?:^|/){file}$"), top=top, callee=callee)


def _native(where: str, func: str) -> Rule:
    return Rule(where, re.compile(rf"(?:{func}).*"), re.compile(""), native=True)


_C10D = r"torch/distributed/distributed_c10d\.py"
_SAVE = r"_?(?:async_|dcp_|legacy_)?save(?:_state_dict|_checkpoint|_to_checkpoint|_pretrained)?"

RULES: tuple[Rule, ...] = (
    _python("checkpoint_save", _SAVE, r"torch/distributed/checkpoint/.*\.py"),
    _python("checkpoint_save", _SAVE, r"(?:torch/serialization|checkpointing|components/checkpoint)\.py"),
    _python("checkpoint_save", r"_?save_(?:sharded_)?checkpoint", r".*"),
    _native("nccl_init", r"ncclComm(?:Init|Split|Shrink|Grow)|ncclGetUniqueId"),
    _native("nccl_init", r"c10d::NCCLComm::(?:create|split)|c10d::ProcessGroupNCCL::initNCCLComm"),
    _python("logging_lock", r"acquire|_acquireLock|handle|__enter__", r"logging/__init__\.py", top=True),
    _python("logging_write", r"flush|emit|_?write|_open", r"logging/(?:__init__|handlers)\.py", top=True),
    _python("dataloader_wait", r"fetch|<listcomp>", r"torch/utils/data/_utils/fetch\.py", callee=True),
    _python(
        "dataloader_wait",
        r"_try_get_data|_get_data|_next_data|__next__|__iter__|_get_iterator|__init__|_shutdown_workers",
        r"torch/utils/data/dataloader\.py",
    ),
    _python("store_wait", r"_create_c10d_store|_store_based_barrier", r"torch/distributed/\w+\.py"),
    _python("store_wait", r".*", r"torch/distributed/elastic/utils/store\.py"),
    _python("rendezvous", r"next_rendezvous|_next_rendezvous", r"torch/distributed/elastic/.*\.py"),
    _python("rendezvous", r".*_rendezvous_handler", r"torch/distributed/rendezvous\.py"),
    _python("rendezvous", r"_new_process_group_helper|init_process_group|_?new_group\w*", _C10D, top=True),
    _python("barrier", r"(?:monitored_)?barrier", rf"(?:{_C10D}|deepspeed/comm/\w+\.py)"),
    _python("collective_wait", r"_?wait\w*", r"torch/distributed/(?:fsdp|_composable)/.*\.py"),
    _python("collective_wait", COLLECTIVES.pattern, _C10D),
    _python("collective_wait", r"wait_tensor|_?wait\w*", r"torch/distributed/_functional_collectives\.py"),
    _python("collective_wait", r"foreach_\w+|_all_gather\w*|_reduce_grad\w*", r"torch/distributed/fsdp/.*\.py"),
    _python("collective_wait", r".*", r"torch/nn/parallel/distributed\.py", top=True),
    _python("collective_wait", r"_verify_param_shape\w*|_sync_\w+", r"torch/distributed/utils\.py"),
    _python("collective_wait", r"_?(?:batched_)?(?:p2p_ops|communicate)\w*", r"p2p_communication\.py"),
    _python("collective_wait", r"finish_(?:grad|param)_sync", r"megatron/core/distributed/.*\.py"),
    _python("collective_wait", COLLECTIVES.pattern, r"deepspeed/comm/\w+\.py"),
    _native("collective_wait", r"c10d::(?:Work|ProcessGroup\w+::\w*Work\w*|GlooWork\w*)::(?:wait|synchronize)|gloo::"),
    _native("collective_wait", r"c10d::Reducer::finalize_backward"),
    _native("store_wait", r"c10d::(?:TCP|Prefix|File|Hash)Store::"),
    _native(
        "device_sync_item", r"THPVariable_item|at::native::(?:item|_local_scalar_dense)|at::_ops::_local_scalar_dense"
    ),
    _native("device_sync_stream", r"(?:cuda|cu|hip)(?:Stream|Device|Event|Ctx)Synchronize"),
    _python("device_sync_stream", r"synchronize|wait", r"torch/cuda/(?:__init__|streams|graphs)\.py", top=True),
    _python("compile", r".*", r"torch/_dynamo/convert_frame\.py"),
    _python("compile", r".*", r"torch/_inductor/(?:compile_fx|graph|scheduler|codecache|async_compile)\.py"),
    _python("compile", r".*", r"triton/(?:compiler/.*|runtime/(?:build|autotuner))\.py"),
    _python("child_wait", r"_?(?:try_)?wait|communicate|poll", r"subprocess\.py"),
    _python("child_wait", r"join|wait|poll", r"multiprocessing/(?:process|popen_\w+)\.py"),
    _python("child_wait", r"join|wait", r"torch/(?:multiprocessing/spawn|distributed/elastic/multiprocessing/api)\.py"),
    _python("child_wait", r"_invoke_run", r"torch/distributed/elastic/agent/.*\.py"),
    _python("lock_wait", r"acquire|wait|wait_for|join|_wait_for_tstate_lock|__enter__", r"threading\.py", top=True),
    _python("lock_wait", r"acquire|__enter__|wait", r"multiprocessing/synchronize\.py", top=True),
    _native("lock_wait", r"(?:lock_)?PyThread_acquire_lock|rlock_acquire|acquire_timed"),
    _native("sleep", r"time_sleep|pysleep"),
)
"""Native `store_wait` and `collective_wait` come after the Python ones, so that --native changes no answer but None."""
