"""Shortens the start of torchrun and its ranks, of which nearly all is the import of torch; found by PYTHONPATH."""

import gc

# A collection walks the hundred thousands of objects that the import makes and frees none.
gc.set_threshold(100_000)
