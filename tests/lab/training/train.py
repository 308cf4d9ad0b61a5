"""A small training job on gloo with data- and tensor-parallel groups that fails as told; started by torchrun."""

import ctypes
import datetime
import os
import time

import torch
import torch.distributed as dist
from stall import StallWatch

RANK = int(os.environ["RANK"])
WORLD_SIZE = int(os.environ["WORLD_SIZE"])
TENSOR_PARALLEL = 2
NEVER = 86400.0
# gloo would report a hang of its own accord after 30 minutes; the tests must not see that.
GLOO_TIMEOUT = datetime.timedelta(hours=6)

# Read from the environment: a command line that names the fault would give it away to whoever looks for it.
FAULT = os.environ["LAB_FAULT"]
CULPRIT = int(os.environ["LAB_CULPRIT"])
FAULT_STEP = int(os.environ["LAB_FAULT_STEP"])
STEP_SECONDS = float(os.environ["LAB_STEP_SECONDS"])
STALL_SECONDS = float(os.environ["LAB_STALL_SECONDS"])


def fails(fault: str, step: int) -> bool:
    """Whether this rank is to fail in this way now."""
    return fault == FAULT and RANK == CULPRIT and step == FAULT_STEP


def fetch_shard(step: int) -> torch.Tensor:
    if fails("sleep", step):
        time.sleep(NEVER)
    batch = torch.randn(8, 32)
    if fails("extra-all-reduce", step):
        batch[3, 7] = float("nan")
    return batch


def _check_batch(batch: torch.Tensor) -> None:
    if not torch.isfinite(batch).all():
        bad_ranks = torch.ones(1)
        dist.all_reduce(bad_ranks)


def count_tokens() -> torch.Tensor:
    counts = torch.full((64,), 32.0)
    dist.all_reduce(counts)
    return counts


def forward(model: torch.nn.Sequential, batch: torch.Tensor, tensor_group: dist.ProcessGroup) -> torch.Tensor:
    hidden = model[0](batch).relu()
    largest = hidden.detach().abs().amax(dim=0)
    dist.all_reduce(largest, dist.ReduceOp.MAX, group=tensor_group)
    return model[1](hidden / (largest + 1.0)).square().mean()


def sync_gradients(model: torch.nn.Sequential, data_group: dist.ProcessGroup) -> None:
    for parameter in model.parameters():
        dist.all_reduce(parameter.grad, group=data_group)


def update(model: torch.nn.Sequential) -> None:
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.sub_(parameter.grad, alpha=0.01)
            parameter.grad = None


def reduce_loss(loss: torch.Tensor) -> float:
    total = loss.detach().reshape(1)
    dist.all_reduce(total)
    return total.item() / WORLD_SIZE


def train_step(
    model: torch.nn.Sequential, step: int, tensor_group: dist.ProcessGroup, data_group: dist.ProcessGroup
) -> float:
    batch = fetch_shard(step)
    _check_batch(batch)
    count_tokens()
    loss = forward(model, batch, tensor_group)
    loss.backward()
    sync_gradients(model, data_group)
    update(model)
    return reduce_loss(loss)


def own_group(groups: list[list[int]], description: str) -> dist.ProcessGroup:
    """Create all groups, as every rank must, and return the one this rank is in."""
    made = [dist.new_group(ranks, timeout=GLOO_TIMEOUT, group_desc=description) for ranks in groups]
    return next(group for group, ranks in zip(made, groups, strict=True) if RANK in ranks)


def hang_on_mismatch() -> None:
    """Let a mismatch hang as with NCCL, where gloo's receiving thread throws at surplus bytes and ends the process."""
    ctypes.CDLL("libstdc++.so.6")._ZSt13set_terminatePFvvE(ctypes.CDLL(None).pause)


def log_step(step: int, seconds: float, loss: float) -> None:
    """A line in the form of Megatron-LM core 0.17, which prints on the last rank."""
    now = datetime.datetime.now().isoformat(sep=" ", timespec="microseconds")
    print(
        f" [{now}] iteration {step:8}/{10**6:8} | consumed samples: {step * 8 * WORLD_SIZE:12} | "
        f"elapsed time per iteration (ms): {seconds * 1000:.1f} | learning rate: 1.000000E-02 | "
        f"global batch size: {8 * WORLD_SIZE:5} | lm loss: {loss:.6E} | loss scale: 1.0 | "
        "number of skipped iterations:   0 | number of nan iterations:   0 |",
        flush=True,
    )


def main() -> None:
    torch.manual_seed(RANK)
    torch.set_num_threads(1)
    hang_on_mismatch()
    dist.init_process_group("gloo", timeout=GLOO_TIMEOUT)
    by_node = [list(range(first, first + TENSOR_PARALLEL)) for first in range(0, WORLD_SIZE, TENSOR_PARALLEL)]
    across = [list(range(first, WORLD_SIZE, TENSOR_PARALLEL)) for first in range(TENSOR_PARALLEL)]
    tensor_group = own_group(by_node, "tensor_parallel")
    data_group = own_group(across, "data_parallel")
    model = torch.nn.Sequential(torch.nn.Linear(32, 64), torch.nn.Linear(64, 16))
    watch = StallWatch(RANK, STALL_SECONDS, None)
    for step in range(1, 10**6):
        began = time.monotonic()
        loss = train_step(model, step, tensor_group, data_group)
        time.sleep(max(0.0, STEP_SECONDS - (time.monotonic() - began)))
        if RANK == WORLD_SIZE - 1:
            log_step(step, time.monotonic() - began, loss)
        watch.step_ended()


if __name__ == "__main__":
    main()
