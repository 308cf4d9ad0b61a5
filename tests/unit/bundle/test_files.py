"""The raw answers of a bundle: those that it holds are read, and no other file; a node does not fill the disk."""

import os
import shutil
from datetime import UTC, datetime
from pathlib import Path

import msgspec
import pytest

from oncall.bundle import probe_folder
from oncall.bundle.evidence import NodeAnswer
from oncall.bundle.store import Bundle, Manifest
from oncall.errors import BundleError, UsageError
from oncall.playbook.journal import read_journal
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
    monkeypatch.setattr(probe_folder, "_MOST_BYTES", 3 << 20)
    manifest = Manifest(run="run42", started=datetime.now(UTC))
    bundle = Bundle.create(manifest, "", tmp_path / "bundle")
    answer = bundle.probe_folder("logs", ("node001",)).open_answer("node001")
    answer.write(b"x" * (2 << 20))
    with pytest.raises(BundleError, match="more than 3 MiB"):
        answer.write(b"x" * (2 << 20))
    kept = answer.close()
    assert kept is not None
    assert kept.stat().st_size == 2 << 20


def test_a_crash_within_a_letter_costs_that_line_alone(sent: Bundle) -> None:
    whole = read_journal(sent)
    with (sent.path / "events.jsonl").open("ab") as stream:
        stream.write('{"event":"noted","at":"2026-01-01T00:00:00Z","text":"日'.encode()[:-1])
    assert read_journal(sent) == whole


@pytest.mark.parametrize("asked", [None, b"", b'["node0'])
def test_a_turn_that_was_cut_at_its_beginning_is_none(asked: bytes | None, sent: Bundle) -> None:
    before = sent.evidence("stacks")
    assert before is not None
    cut = sent.path / "evidence/stacks/2"
    cut.mkdir()
    (cut.parent / "2 of a copy").mkdir()
    if asked is not None:
        (cut / "asked.json").write_bytes(asked)
    after = sent.evidence("stacks")
    assert after is not None
    assert after.answers == before.answers
    assert sent.probe_folder("stacks", ("node001",)).path.name == "3"


def test_a_file_that_cannot_be_read_is_named(sent: Bundle) -> None:
    (sent.path / "ranks.json").unlink(missing_ok=True)
    (sent.path / "ranks.json").mkdir()
    with pytest.raises(UsageError, match=r"ranks\.json: Is a directory"):
        sent.read_text("ranks.json")
