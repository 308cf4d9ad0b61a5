"""A small training job on gloo with data- and tensor-parallel groups that fails as told; started by torchrun."""

import ctypes
import datetime
import itertools
import os
import threading
import time
from collections.abc import Iterator

import torch
import torch.distributed as dist
from stall import StallWatch
from torch.utils.data import DataLoader, Dataset
from watchdog import Watchdog

RANK = int(os.environ["RANK"])
WORLD_SIZE = int(os.environ["WORLD_SIZE"])
TENSOR_PARALLEL = 2
NEVER = 86400.0
# gloo would report a hang of its own accord after 30 minutes, which no test waits for.
GLOO_TIMEOUT = datetime.timedelta(hours=6)

# Read from the environment: a command line that names the fault would give it away to whoever looks for it.
FAULT = os.environ["LAB_FAULT"]
CULPRIT = int(os.environ["LAB_CULPRIT"])
FAULT_STEP = int(os.environ["LAB_FAULT_STEP"])
STEP_SECONDS = float(os.environ["LAB_STEP_SECONDS"])
STALL_SECONDS = float(os.environ["LAB_STALL_SECONDS"])
WATCHDOG = os.environ["LAB_WATCHDOG"] == "1"
DATASET = os.environ["LAB_DATASET"]

shard_lock = threading.Lock()


def fails(fault: str, step: int = FAULT_STEP) -> bool:
    """Whether this rank is to fail in this way at this step; start-up counts as any step."""
    return fault == FAULT and RANK == CULPRIT and step == FAULT_STEP


def refill_shard_cache(held: threading.Event) -> None:
    with shard_lock:
        held.set()
        time.sleep(NEVER)


def start_refill() -> None:
    held = threading.Event()
    threading.Thread(target=refill_shard_cache, args=(held,), name="refill", daemon=True).start()
    held.wait()


def fetch_shard(step: int) -> torch.Tensor:
    if fails("sleep", step):
        time.sleep(NEVER)
    if fails("hung-mount", step):
        os.listdir(DATASET)
    if fails("lock", step):
        start_refill()
    with shard_lock:
        batch = torch.randn(8, 32)
    if fails("extra-all-reduce", step) or fails("restarting", step):
        batch[3, 7] = float("nan")
    return batch


class Samples(Dataset[torch.Tensor]):
    """Endless batches, made in a loader's worker."""

    def __len__(self) -> int:
        return 10**6

    def __getitem__(self, index: int) -> torch.Tensor:
        return read_sample(index + 1)


def read_sample(step: int) -> torch.Tensor:
    if fails("dataloader", step):
        time.sleep(NEVER)
    return torch.randn(8, 32)


def batches() -> Iterator[torch.Tensor]:
    """One batch a step; from a worker process where the fault lies in it."""
    if FAULT == "dataloader":
        return iter(DataLoader(Samples(), batch_size=None, num_workers=1))
    return map(fetch_shard, itertools.count(1))


def _check_batch(batch: torch.Tensor) -> None:
    if torch.isfinite(batch).all():
        return
    if FAULT == "restarting":
        raise ValueError("batch is not finite")
    bad_ranks = torch.ones(1)
    dist.all_reduce(bad_ranks)


def count_tokens(step: int) -> None:
    counts = torch.ones(960 if fails("size", step) else 1024)
    if fails("type", step):
        dist.broadcast(counts, src=0)
    else:
        dist.all_reduce(counts)


def forward(model: torch.nn.Sequential, batch: torch.Tensor, tensor_group: dist.ProcessGroup) -> torch.Tensor:
    hidden = model[0](batch).relu()
    largest = hidden.detach().abs().amax(dim=0)
    dist.all_reduce(largest, dist.ReduceOp.MAX, group=tensor_group)
    loss: torch.Tensor = model[1](hidden / (largest + 1.0)).square().mean()
    return loss


def sync_gradients(model: torch.nn.Sequential, data_group: dist.ProcessGroup, step: int) -> None:
    gradients = [parameter.grad for parameter in model.parameters()]
    for gradient in gradients[1:] if fails("skip-all-reduce", step) else gradients:
        dist.all_reduce(gradient, group=data_group)


def update(model: torch.nn.Sequential) -> None:
    with torch.no_grad():
        for parameter in model.parameters():
            assert parameter.grad is not None
            parameter.sub_(parameter.grad, alpha=0.01)
            parameter.grad = None


def reduce_loss(loss: torch.Tensor, step: int) -> float:
    total = loss.detach().reshape(1).to(torch.float64 if fails("dtype", step) else torch.float32)
    dist.all_reduce(total)
    return total.item() / WORLD_SIZE


def own_group(groups: list[list[int]], description: str) -> dist.ProcessGroup:
    """Create all groups, as every rank must, and return the one this rank is in."""
    made = [dist.new_group(ranks, timeout=GLOO_TIMEOUT, group_desc=description) for ranks in groups]
    own = next(group for group, ranks in zip(made, groups, strict=True) if RANK in ranks)
    assert isinstance(own, dist.ProcessGroup)
    return own


def join_groups() -> tuple[dist.ProcessGroup, dist.ProcessGroup]:
    """The tensor- and data-parallel group of this rank; returns when every rank has joined."""
    fetch_tokenizer()
    print(f"> initializing torch distributed: rank {RANK} of {WORLD_SIZE}", flush=True)
    dist.init_process_group("gloo", timeout=GLOO_TIMEOUT)
    neighbours = [list(range(first, first + TENSOR_PARALLEL)) for first in range(0, WORLD_SIZE, TENSOR_PARALLEL)]
    strided = [list(range(first, WORLD_SIZE, TENSOR_PARALLEL)) for first in range(TENSOR_PARALLEL)]
    return own_group(neighbours, "tensor_parallel"), own_group(strided, "data_parallel")


def fetch_tokenizer() -> None:
    print("> building tokenizer", flush=True)
    if fails("init"):
        time.sleep(NEVER)


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
    tensor_group, data_group = join_groups()
    model = torch.nn.Sequential(torch.nn.Linear(32, 64), torch.nn.Linear(64, 16))
    watchdog = Watchdog(STALL_SECONDS, (dist.group.WORLD, tensor_group, data_group)) if WATCHDOG else None
    batch = batches()
    watch = StallWatch(RANK, STALL_SECONDS, watchdog)
    for step in itertools.count(1):
        began = time.monotonic()
        loss = train_step(model, step, next(batch), tensor_group, data_group)
        time.sleep(max(0.0, STEP_SECONDS - (time.monotonic() - began)))
        if RANK == WORLD_SIZE - 1:
            log_step(step, time.monotonic() - began, loss)
        watch.step_ended()


def train_step(
    model: torch.nn.Sequential,
    step: int,
    batch: torch.Tensor,
    tensor_group: dist.ProcessGroup,
    data_group: dist.ProcessGroup,
) -> float:
    _check_batch(batch)
    count_tokens(step)
    loss = forward(model, batch, tensor_group)
    loss.backward()  # type: ignore[no-untyped-call]
    sync_gradients(model, data_group, step)
    update(model)
    return reduce_loss(loss, step)


if __name__ == "__main__":
    main()
