"""The local reach, and with it the fan-out and the bundle, on real shells."""

import asyncio
import time
from datetime import UTC, datetime
from pathlib import Path

import pytest

from oncall.bundle.evidence import Evidence, NodeAnswer, Outcome
from oncall.bundle.store import Bundle, Manifest
from oncall.reach.fanout import ask_all
from oncall.reach.local import LocalReach
from oncall.reach.protocol import Limits

BOUNDARY = "oncall-0123456789abcdef"


def bundle(tmp_path: Path) -> Bundle:
    return Bundle.create(Manifest(run="run42", started=datetime.now(UTC)), 'nodes = "n"', tmp_path / "bundle")


async def ask(store: Bundle, scripts: dict[str, str], deadline_s: float = 10.0) -> Evidence:
    folder = store.probe_folder("logs", scripts)
    encoded = {host: script.encode() for host, script in scripts.items()}
    return await ask_all(
        LocalReach(),
        folder,
        encoded,
        boundary=BOUNDARY,
        limits=Limits(deadline_s, deadline_s),
        on_answer=lambda _: None,
    )


async def test_noise_before_the_first_part_is_no_answer(tmp_path: Path) -> None:
    script = (
        f"echo welcome; printf '\\n{BOUNDARY}\\tfile\\tpath=/a%%09b\\nraw \\377 bytes'; printf '\\n{BOUNDARY}\\tend\\n'"
    )
    evidence = await ask(bundle(tmp_path), {"n1": script})
    parts = evidence.parts("n1")
    assert [part.name for part in parts] == ["file", "end"]
    assert parts[0].attributes == {"path": "/a\tb"}
    assert parts[0].data == b"raw \xff bytes"


async def test_a_script_without_end_delays_nobody_and_what_it_said_is_kept(tmp_path: Path) -> None:
    said = f"printf '\\n{BOUNDARY}\\tfile\\nhalf'; sleep 60"
    done = f"printf '\\n{BOUNDARY}\\tend\\n'"
    began = time.monotonic()
    evidence = await ask(bundle(tmp_path), {"slow": said, "quick": done}, deadline_s=1.0)
    assert time.monotonic() - began < 5
    assert evidence.answers["slow"].outcome is Outcome.PARTIAL
    assert evidence.parts("slow")[0].data == b"half"
    assert evidence.coverage.answered == ("quick",)
    assert evidence.coverage.describe() == "1 of 2 nodes answered; slow: no end within 1 s"


async def test_a_failing_script_is_a_failed_node_with_its_words(tmp_path: Path) -> None:
    evidence = await ask(bundle(tmp_path), {"n1": "echo no such thing >&2; exit 3"})
    assert evidence.answers["n1"].outcome is Outcome.FAILED
    assert "exit code 3: no such thing" in evidence.coverage.missing["n1"]


async def test_a_bundle_interrupted_half_way_replays_what_had_arrived(tmp_path: Path) -> None:
    store = bundle(tmp_path)
    answered = asyncio.Event()
    folder = store.probe_folder("logs", ["quick", "slow"])
    scripts = {
        "quick": f"printf '\\n{BOUNDARY}\\tend\\n'".encode(),
        "slow": f"printf '\\n{BOUNDARY}\\tfile\\nhalf'; sleep 60".encode(),
    }

    def on_answer(answer: NodeAnswer) -> None:
        answered.set()

    task = asyncio.create_task(
        ask_all(LocalReach(), folder, scripts, boundary=BOUNDARY, limits=Limits(60, 60), on_answer=on_answer)
    )
    await answered.wait()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    again = Bundle.open(store.path).evidence("logs")
    assert again is not None
    assert again.coverage.answered == ("quick",)
    assert again.answers["slow"].outcome is Outcome.CANCELLED


async def test_an_index_line_cut_by_a_crash_loses_only_itself(tmp_path: Path) -> None:
    store = bundle(tmp_path)
    done = f"printf '\\n{BOUNDARY}\\tend\\n'"
    await ask(store, {"n1": done, "n2": done})
    index = store.path / "evidence/logs/1/index.jsonl"
    index.write_bytes(index.read_bytes()[:-20])
    again = Bundle.open(store.path).evidence("logs")
    assert again is not None
    assert len(again.answers) == 1
    assert len(again.coverage.missing) == 1


async def test_a_node_that_falls_silent_is_given_up_before_the_total(tmp_path: Path) -> None:
    store = bundle(tmp_path)
    script = f"printf '\\n{BOUNDARY}\\tfile\\nhalf'; sleep 60".encode()
    folder = store.probe_folder("logs", ["n1"])
    began = time.monotonic()
    evidence = await ask_all(
        LocalReach(), folder, {"n1": script}, boundary=BOUNDARY, limits=Limits(30, 0.5), on_answer=lambda _: None
    )
    assert time.monotonic() - began < 10
    assert evidence.coverage.missing["n1"] == "no end within 30 s, or silent for 0.5 s"
    assert evidence.parts("n1")[0].data == b"half"


async def test_a_full_disk_fails_the_answer_and_not_the_triage(tmp_path: Path) -> None:
    """/dev/full refuses every byte, as a full disk does."""
    store = bundle(tmp_path)
    folder = store.probe_folder("logs", ["n1"])
    (folder.path / "n1.part").symlink_to("/dev/full")
    script = {"n1": b"head -c 3000000 /dev/zero"}
    evidence = await ask_all(
        LocalReach(), folder, script, boundary=BOUNDARY, limits=Limits(30, 30), on_answer=lambda _: None
    )
    assert evidence.answers["n1"].outcome is Outcome.FAILED
    assert "No space left" in evidence.coverage.missing["n1"]


async def test_a_script_that_is_ended_takes_its_temporary_folder_along(tmp_path: Path) -> None:
    """As a probe does: the shell waits for a program that `timeout` runs in a process group of its own."""
    script = f"""trap 'exit 1' TERM
        temporary=$(mktemp -d -p {tmp_path}); trap 'rm -rf "$temporary"' EXIT
        printf '\\n{BOUNDARY}\\tmade\\n%s' "$temporary"; timeout -k 2 60 sleep 60"""
    evidence = await ask(bundle(tmp_path), {"n1": script}, deadline_s=1.0)
    (made,) = evidence.parts("n1")
    assert made.data.startswith(bytes(tmp_path))
    assert not Path(made.data.decode()).exists()


async def test_what_does_not_end_when_it_is_asked_is_killed(tmp_path: Path) -> None:
    said = bytearray()
    script = b"trap '' TERM; echo $$; while :; do sleep 60; done"
    ended = await LocalReach().run("here", script, said.extend, Limits(1.0, 1.0))
    assert ended.outcome is Outcome.PARTIAL
    assert not Path(f"/proc/{int(said)}").exists()


async def test_a_flood_that_nobody_takes_ends_with_its_process(tmp_path: Path) -> None:
    """The pipe is full and its reading paused when the process is killed: waiting for it must not wait for ever."""

    def refuse(_data: bytes) -> None:
        raise OSError("no room")

    async with asyncio.timeout(10):
        with pytest.raises(OSError, match="no room"):
            await LocalReach().run("here", b"cat /dev/zero", refuse, Limits(30, 30))
