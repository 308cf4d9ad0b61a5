"""A rank of a job that hangs, with PyTorch's debug server: rank 0 waits in an all-reduce that rank 1 never issues.

usage: debug_job.py STORE, with RANK of 2 in the environment. Prints the port of its server, 0 for a Unix socket that
TORCH_WORKER_SERVER_SOCKET names.
"""

import os
import sys
import time

import torch
import torch.distributed as dist
from torch._C._distributed_c10d import _WorkerServer

rank = int(os.environ["RANK"])
dist.init_process_group("gloo", store=dist.FileStore(sys.argv[1], 2), rank=rank, world_size=2)
socket = os.environ.get("TORCH_WORKER_SERVER_SOCKET")
server = _WorkerServer(socket) if socket else _WorkerServer("::", 0)
dist.all_reduce(torch.ones(4))


def fetch_shard() -> None:
    print(0 if socket else server.port, flush=True)
    time.sleep(600)


if rank == 1:
    fetch_shard()
print(0 if socket else server.port, flush=True)
dist.all_reduce(torch.ones(4))
