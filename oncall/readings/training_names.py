"""Which of a host's processes train, by the name that the kernel prints."""

import re

_LIKE_TRAINING = re.compile(r"python|^pt_|^ray::|torchrun")


def like_training(name: str) -> bool:
    """Whether a task's name (`comm` of proc(5), 15 bytes) is such as python3, pt_main_thread or ray::Worker."""
    return _LIKE_TRAINING.search(name) is not None
