"""Mounts a file system that never answers, as a storage server that is gone; run as root inside a node.

usage: hung_mount.py FOLDER. The kernel waits for the answer to FUSE's first request as for a dead NFS server's:
whoever looks into FOLDER is in state D until it is killed.
"""

import ctypes
import os
import sys

device = os.open("/dev/fuse", os.O_RDWR)
os.set_inheritable(device, True)
options = f"fd={device},rootmode=40000,user_id=0,group_id=0,allow_other"
if ctypes.CDLL(None, use_errno=True).mount(b"storage", os.fsencode(sys.argv[1]), b"fuse", 0, options.encode()):
    raise OSError(ctypes.get_errno(), "mount", sys.argv[1])
print("mounted", flush=True)
os.execvp("sleep", ["sleep", "86400"])
