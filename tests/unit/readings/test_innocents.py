"""Who did not do it: faults that the job outlived, of other GPUs, of earlier boots; answers that tell half of it."""

from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

from oncall.bundle.evidence import Outcome
from oncall.flight_recorder.model import Grade
from oncall.readings.alive import alive
from oncall.readings.finding import Finding, Judgement, Role
from oncall.readings.hardware import hardware
from oncall.readings.program_fault import program_fault
from oncall.readings.progress import progress
from oncall.run.ranks import Place, rank_map

from .evidence import BOUNDARY, UPTIME_S, Part, Scene, log, process, processes

LOST = "[{uptime:12.6f}] NVRM: Xid (PCI:{pci}): {code}, pid=7, name=python, some text\n"
STEP = (
    " [2026-03-03 02:{minute:02}:00] iteration      {step}/  100000 | consumed samples:         1000 |"
    " elapsed time per iteration (ms): 4812.3 | learning rate: 2.987E-04 | global batch size:   512 |"
    " lm loss: 2.104E+00 | loss scale: 1.0 | grad norm: 0.812 | number of skipped iterations:   0 |"
    " number of nan iterations:   0 |\n"
)
STOPPED_AT = 50
"""The minute of the last step; the triage begins at 03:00, so that it ended 600 s ago."""
TIMED_OUT = (
    "[rank0]:[E0303 02:51:40.9 ProcessGroupNCCL.cpp:685] [Rank 0] Watchdog caught collective operation timeout:"
    " WorkNCCL(SeqNum=63, OpType=ALLREDUCE, NumelIn=1024, NumelOut=1024, Timeout(ms)=60000) ran for 60014 milliseconds"
    " before timing out.\n"
)
GPUS = "".join(f"{index}, GPU-{index}, 00000000:{index + 1}A:00.0\n" for index in range(4))


def xid(code: int, ago_s: float, *, gpu: int = 0) -> str:
    return LOST.format(uptime=UPTIME_S - ago_s, pci=f"0000:{gpu + 1}a:00", code=code)


def kernel(text: str = "") -> list[Part]:
    return [("kernel", {"form": "dmesg"}, text)]


def stopped(folder: Path, first: str = "", second: str = "") -> Scene:
    """Eight ranks on two nodes, four GPUs each, stopped for ten minutes, with these kernel logs."""
    scene = Scene(folder)
    scene.say("processes", {"node001": processes(range(4)), "node002": processes(range(4, 8))})
    scene.say("gpus", {host: [("gpus", {"form": "nvidia-smi"}, GPUS)] for host in ("node001", "node002")})
    steps = STEP.format(minute=STOPPED_AT - 1, step=410) + STEP.format(minute=STOPPED_AT, step=411)
    scene.say("logs", {"node001": [log("/l/x/attempt_0/0/stdout.log", steps, rank=0, age_s=600)], "node002": []})
    return scene.say("kernel", {"node001": kernel(first), "node002": kernel(second)})


def asked_for_the_last_step(scene: Scene, *accusations: Finding) -> Judgement:
    """What `hardware` says in a walk that first asked whether steps still end."""
    scene.case.findings = (*progress(scene.case).findings, *accusations)
    return hardware(scene.case)


def accuse(*ranks: int, grade: Grade = Grade.SURE) -> Finding:
    hosts = tuple(dict.fromkeys(f"node{rank // 4 + 1:03}" for rank in ranks))
    text = "it has issued something else"
    return Finding(kind="extra_collective", text=text, role=Role.ORIGIN, grade=grade, ranks=ranks, hosts=hosts)


def named(judged: Judgement, role: Role = Role.ORIGIN) -> list[tuple[int, ...]]:
    return [finding.ranks for finding in judged.findings if finding.role is role]


class TestOutlived:
    """A fault after which steps went on to end did not stop them."""

    def test_steps_that_ended_for_an_hour_after_it_clear_a_fault(self, tmp_path: Path) -> None:
        judged = asked_for_the_last_step(stopped(tmp_path, second=xid(79, 4200.0, gpu=3)))
        assert (judged.verdict, named(judged)) == ("clear", [])
        (finding,) = judged.findings
        assert finding.role is Role.CONTEXT
        assert "steps ended for another 3,5" in finding.text

    def test_a_fault_shortly_before_the_last_step_is_only_likely(self, tmp_path: Path) -> None:
        judged = asked_for_the_last_step(stopped(tmp_path, second=xid(79, 645.0, gpu=1)), accuse(5))
        assert [finding.grade for finding in judged.findings] == [Grade.LIKELY]
        judged = asked_for_the_last_step(stopped(tmp_path / "after", second=xid(79, 590.0, gpu=1)), accuse(5))
        assert [finding.grade for finding in judged.findings] == [Grade.SURE]

    def test_a_fault_after_the_last_step_is_the_cause(self, tmp_path: Path) -> None:
        judged = asked_for_the_last_step(stopped(tmp_path, second=xid(79, 590.0, gpu=1)))
        assert (judged.verdict, named(judged)) == ("fault", [(5,)])

    def test_what_the_suspects_own_gpu_outlived_may_have_broken_it_all_the_same(self, tmp_path: Path) -> None:
        judged = asked_for_the_last_step(stopped(tmp_path, second=xid(48, 4200.0, gpu=1)), accuse(5))
        assert (judged.verdict, named(judged)) == ("fault", [(5,)])
        assert judged.findings[0].grade is Grade.LIKELY

    def test_who_asks_what_an_alert_means_is_told_of_older_faults_too(self, tmp_path: Path) -> None:
        assert hardware(stopped(tmp_path, second=xid(79, 4200.0)).case).verdict == "fault"

    def test_a_program_that_went_on_did_not_bring_itself_down(self, tmp_path: Path) -> None:
        scene = stopped(tmp_path, second=xid(31, 4200.0, gpu=1))
        scene.case.findings = (*progress(scene.case).findings, accuse(5))
        assert program_fault(scene.case).verdict == "clear"


class TestOtherGpus:
    """The GPU of another rank on a suspect's host is not the suspect's."""

    def test_a_fault_of_a_neighbour_speaks_against_the_suspect(self, tmp_path: Path) -> None:
        judged = asked_for_the_last_step(stopped(tmp_path, second=xid(79, 590.0, gpu=3)), accuse(5))
        assert judged.verdict == "clear"
        assert named(judged, Role.AGAINST) == [(7,)]

    def test_a_link_has_two_ends_so_a_neighbours_may_be_the_suspects(self, tmp_path: Path) -> None:
        judged = asked_for_the_last_step(stopped(tmp_path, second=xid(74, 590.0, gpu=3)), accuse(5))
        assert judged.verdict == "fault"
        assert judged.findings[0].grade is Grade.LIKELY

    def test_a_fault_of_the_host_is_that_of_all_its_ranks(self, tmp_path: Path) -> None:
        line = f"[{UPTIME_S - 590:12.6f}] EDAC MC0: 1 UE memory read error on CPU_SrcID#0 (channel:0 slot:0)\n"
        assert asked_for_the_last_step(stopped(tmp_path, second=line), accuse(5)).verdict == "fault"

    @pytest.mark.parametrize(("later_s", "ranks"), [(10.0, (5,)), (0.5, (5, 7))], ids=["later", "at once"])
    def test_what_another_gpu_reports_later_is_a_consequence(
        self, later_s: float, ranks: tuple[int, ...], tmp_path: Path
    ) -> None:
        faults = xid(79, 590.0, gpu=1) + xid(79, 590.0 - later_s, gpu=3)
        assert named(asked_for_the_last_step(stopped(tmp_path, second=faults))) == [ranks]

    def test_a_neighbour_that_failed_before_the_suspects_gpu_is_named_with_it(self, tmp_path: Path) -> None:
        faults = xid(79, 595.0, gpu=3) + xid(79, 590.0, gpu=1)
        judged = asked_for_the_last_step(stopped(tmp_path, second=faults), accuse(5))
        assert (named(judged), judged.findings[0].grade) == ([(5, 7)], Grade.LIKELY)

    def test_a_host_that_was_not_read_may_have_failed_before(self, tmp_path: Path) -> None:
        """Rank 0 waited in vain, and nothing but the kernel tells for whom."""
        scene = stopped(tmp_path, second=xid(79, 590.0, gpu=1))
        scene.say(
            "logs", {"node001": [log("/l/x/attempt_0/0/stderr.log", TIMED_OUT, rank=0, age_s=500)], "node002": []}
        )
        assert [finding.grade for finding in hardware(scene.case).findings] == [Grade.SURE]
        scene.say("kernel", {"node001": "timed out", "node002": kernel(xid(79, 590.0, gpu=1))})
        assert [(f.ranks, f.grade) for f in hardware(scene.case).findings] == [((5,), Grade.LIKELY)]

    @pytest.mark.parametrize("code", [92, 38], ids=["corrected errors", "a watchdog"])
    def test_what_a_job_goes_on_with_is_not_why_ranks_waited(self, code: int, tmp_path: Path) -> None:
        scene = stopped(tmp_path, second=xid(code, 590.0, gpu=1))
        scene.say(
            "logs", {"node001": [log("/l/x/attempt_0/0/stderr.log", TIMED_OUT, rank=0, age_s=500)], "node002": []}
        )
        assert (hardware(scene.case).verdict, named(hardware(scene.case))) == ("clear", [])

    def test_what_is_undecided_accuses_nobody(self, tmp_path: Path) -> None:
        scene = stopped(tmp_path, second=xid(79, 590.0, gpu=1))
        scene.say("gpus", {"node001": [], "node002": []})
        judged = asked_for_the_last_step(scene, accuse(0, 6, 7, grade=Grade.UNDECIDED))
        assert (judged.verdict, named(judged)) == ("fault", [()])
        assert judged.findings[0].grade is Grade.LIKELY


class TestEarlierBoots:
    """A log on disk goes back to earlier boots; the node booted 100,000 s ago, on 1 March at 23:13."""

    BANNER = "[    0.000000] Linux version 6.1.0 (builder) #1 SMP\n"

    @pytest.mark.parametrize(
        "old",
        [
            "Mar  3 02:52:00 node002 kernel: NVRM: Xid (PCI:0000:2a:00): 79, pid=7, name=python, lost\n",
            "[ 99500.000000] NVRM: Xid (PCI:0000:2a:00): 79, pid=7, name=python, lost\n",
            "[900000.000000] NVRM: Xid (PCI:0000:2a:00): 79, pid=7, name=python, lost\n",
        ],
        ids=["without a year", "within this uptime", "beyond this uptime"],
    )
    def test_a_line_before_the_last_banner_is_of_no_moment_since(self, old: str, tmp_path: Path) -> None:
        scene = stopped(tmp_path, second=old + self.BANNER)
        assert hardware(scene.case).verdict == "clear"
        assert asked_for_the_last_step(scene).verdict == "clear"

    def test_a_line_that_counts_from_another_boot_than_its_stamp_says(self, tmp_path: Path) -> None:
        old = "Mar  3 02:52:00 node002 kernel: [ 1022.000000] NVRM: Xid (PCI:0000:2a:00): 79, pid=7, name=x, lost\n"
        assert hardware(stopped(tmp_path, second=old).case).verdict == "clear"

    def test_a_line_after_the_banner_is_of_this_boot(self, tmp_path: Path) -> None:
        assert hardware(stopped(tmp_path, second=self.BANNER + xid(79, 590.0)).case).verdict == "fault"


class TestHalfTheTruth:
    """An answer that was cut short, or that another machine gave."""

    def cut(self, scene: Scene, probe: str, host: str, outcome: Outcome | None = None) -> None:
        """The answer without its last part; `outcome` is what the index says of it, as it was where None."""
        evidence = scene.case.evidence(probe)
        assert evidence is not None
        answer = evidence.answers[host]
        path = evidence.folder / str(answer.file)
        whole = path.read_bytes()
        path.write_bytes(whole[: whole.rindex(b"\n" + BOUNDARY.encode())])
        told = msgspec.structs.replace(answer, outcome=outcome or answer.outcome)
        scene.case.add(replace(evidence, answers={**evidence.answers, host: told}))

    @pytest.mark.parametrize("outcome", [None, Outcome.PARTIAL, Outcome.FAILED])
    def test_a_kernel_log_that_was_cut_short_clears_nobody(self, outcome: Outcome | None, tmp_path: Path) -> None:
        scene = stopped(tmp_path)
        self.cut(scene, "kernel", "node002", outcome)
        judged = hardware(scene.case)
        assert judged.verdict == "unknown"
        assert f"not read: node002 ({outcome or 'its answer was cut short'})" in judged.reason

    def test_a_fault_in_what_came_of_it_counts(self, tmp_path: Path) -> None:
        scene = stopped(tmp_path, second=xid(79, 590.0))
        self.cut(scene, "kernel", "node002")
        assert hardware(scene.case).verdict == "fault"

    def test_ranks_beyond_the_end_of_a_list_that_was_cut_short_are_not_lost(self, tmp_path: Path) -> None:
        scene = stopped(tmp_path)
        scene.say("processes", {"node001": processes(range(4)), "node002": processes(range(4, 7))})
        assert alive(scene.case).verdict == "gone"
        self.cut(scene, "processes", "node002")
        judged = alive(scene.case)
        assert judged.verdict == "unknown"
        assert "node002: its answer was cut short" in judged.reason

    def test_a_log_that_lost_its_end_does_not_tell_the_last_step(self, tmp_path: Path) -> None:
        scene = stopped(tmp_path)
        assert progress(scene.case).verdict == "stopped"
        self.cut(scene, "logs", "node001")
        assert progress(scene.case).verdict == "unknown"

    def test_a_process_without_a_second_look_is_not_lost(self, tmp_path: Path) -> None:
        scene = stopped(tmp_path)
        once = [*processes(range(4, 7)), process(7)[0]]
        scene.say("processes", {"node001": processes(range(4)), "node002": once})
        assert alive(scene.case).verdict == "all-alive"

    def test_a_lost_rank_whose_log_was_not_seen_may_have_ended_because_of_others(self, tmp_path: Path) -> None:
        scene = stopped(tmp_path)
        scene.say("processes", {"node001": processes(range(4)), "node002": processes(range(5, 8))})
        assert [(f.ranks, f.grade) for f in alive(scene.case).findings] == [((4,), Grade.SURE)]
        scene.say("logs", {"node001": [], "node002": "timed out"})
        assert [(f.ranks, f.grade) for f in alive(scene.case).findings] == [((4,), Grade.LIKELY)]

    def test_two_names_of_one_machine_lose_nobody(self, tmp_path: Path) -> None:
        scene = stopped(tmp_path)
        scene.say("processes", {"node001": processes(range(4)), "node002": processes(range(4))})
        judged = alive(scene.case)
        assert judged.verdict == "unknown"
        assert "node001 and node002 answer as one machine" in judged.reason


class TestRankMapOfAnotherStart:
    """The file says one thing and the processes another."""

    def given(self, scene: Scene, order: list[int]) -> None:
        """A file in which rank r stands where `order[r]` really runs."""
        places = [
            Place(rank=r, host=f"node{at // 4 + 1:03}", local_rank=at % 4, coordinate={"dp": r})
            for r, at in enumerate(order)
        ]
        scene.case.given_ranks = rank_map(places, world_size=8, source="ranks.json")

    @pytest.mark.parametrize(
        "order", [[4, 5, 6, 7, 0, 1, 2, 3], [3, 4, 5, 6, 7, 0, 1, 2]], ids=["hosts changed", "shifted"]
    )
    def test_the_processes_say_whose_gpu_it_was(self, order: list[int], tmp_path: Path) -> None:
        scene = stopped(tmp_path)
        self.given(scene, order)
        scene.say("kernel", {"node001": kernel(), "node002": kernel(xid(79, 590.0, gpu=1))})
        assert named(hardware(scene.case)) == [(5,)]
        assert "ranks.json contradicts" in scene.case.ranks.source
        assert scene.case.ranks.places[5].coordinate == {"dp": 5}

    def test_a_file_that_agrees_stands_for_ranks_that_nobody_saw(self, tmp_path: Path) -> None:
        scene = stopped(tmp_path)
        self.given(scene, list(range(8)))
        scene.say("processes", {"node001": processes(range(4)), "node002": "timed out"})
        assert (scene.case.ranks.source, scene.case.ranks.places[6].host) == ("ranks.json", "node002")
