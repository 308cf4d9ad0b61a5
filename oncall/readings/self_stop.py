"""Has the training program stopped by itself since its loss is not finite, or does it go on?"""

from oncall.readings.case import Case
from oncall.readings.finding import Judgement, unknown
from oncall.readings.log_set import log_set
from oncall.readings.loss import newest_history, raised_line
from oncall.readings.process_table import process_table


def self_stop(case: Case) -> Judgement:
    """Has the trainer stopped by itself?

    `stopped`: an exception about the loss ended it, or nothing runs any more. `going-on`: it makes further steps.
    `unknown`: neither logs nor processes tell.
    """
    logs = case.view("logs", log_set)
    table = case.view("processes", process_table)
    raised = raised_line(logs) if logs else None
    if raised is not None:
        return Judgement(verdict="stopped", reason=f"{raised.host}: {raised.text}")
    coverage = case.coverage("processes")
    running = len(table.by_rank()) if table else 0
    if not running:
        if not coverage.complete:
            return unknown(f"no process seen, but {coverage.describe()}")
        return Judgement(verdict="stopped", reason="no training process is left")
    history = newest_history(logs) if logs else None
    bad = history.first_bad if history else None
    if history is None or bad is None:
        return unknown(f"{running} processes run, but no log shows the step at which the loss was lost")
    after = history.steps[-1].step - bad.step
    return Judgement(verdict="going-on", reason=f"{running} processes run; {after} more steps after step {bad.step}")
