"""The raw answers of a bundle: those that it holds are read, and no other file; a node does not fill the disk."""

import os
import shutil
from datetime import UTC, datetime
from pathlib import Path

import msgspec
import pytest

from oncall.bundle import store
from oncall.bundle.evidence import NodeAnswer
from oncall.bundle.store import Bundle, BundleError, Manifest
from oncall.readings.stack_set import stack_set
from oncall.rehearse.incidents import incidents

ELSEWHERE = {
    "absolute": "{outside}",
    "above": "../outside",
    "a link": "evidence/stacks/1/link",
    "gone": "evidence/stacks/1/gone.out",
    "a folder": "evidence",
    "a pipe": "evidence/stacks/1/pipe",
    "no name": "a\0b",
    "too long a name": "x" * 5000,
}


@pytest.fixture
def sent(tmp_path: Path) -> Bundle:
    """A bundle from somebody else, and beside it a file that is not its own."""
    shutil.copytree(incidents()["hang-by-code"].bundle.path, tmp_path / "sent")
    (tmp_path / "outside").write_bytes(b"\nword\tstack\tpid=1\trank=0\n[]\nsecret\n\nword\tend\n")
    folder = tmp_path / "sent/evidence/stacks/1"
    (folder / "link").symlink_to(tmp_path / "outside")
    os.mkfifo(folder / "pipe")
    return Bundle.open(tmp_path / "sent")


@pytest.mark.parametrize("file", ELSEWHERE.values(), ids=ELSEWHERE)
def test_only_files_of_the_bundle_are_read(file: str, sent: Bundle) -> None:
    index = sent.path / "evidence/stacks/1/index.jsonl"
    file = file.format(outside=sent.path.with_name("outside"))
    answers = [msgspec.json.decode(line, type=NodeAnswer) for line in index.read_bytes().split(b"\n") if line]
    forged = [msgspec.structs.replace(answer, file=file, boundary="word") for answer in answers]
    index.write_bytes(b"\n".join(map(msgspec.json.encode, forged)))
    evidence = sent.evidence("stacks")
    assert evidence is not None
    assert list(evidence.all_parts("stack")) == []
    assert stack_set(evidence).stacks == {}
    assert set(evidence.coverage.missing) == set(evidence.asked)
    assert "not in the bundle" in evidence.coverage.describe()


def test_a_node_that_never_ends_does_not_fill_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store, "_MOST_BYTES", 3 << 20)
    manifest = Manifest(run="run42", started=datetime.now(UTC))
    bundle = Bundle.create(manifest, "", tmp_path / "bundle")
    answer = bundle.probe_folder("logs", ("node001",)).open_answer("node001")
    answer.write(b"x" * (2 << 20))
    with pytest.raises(BundleError, match="more than 3 MiB"):
        answer.write(b"x" * (2 << 20))
    kept = answer.close()
    assert kept is not None
    assert kept.stat().st_size == 2 << 20
