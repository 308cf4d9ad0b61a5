"""Has the training program stopped by itself since its loss is not finite, or does it go on?"""

from oncall.readings.case import Case
from oncall.readings.finding import Judgement, unknown
from oncall.readings.loss_end import lost_loss, started_since
from oncall.readings.process_table import process_table


def self_stop(case: Case) -> Judgement:
    """Has the trainer stopped by itself?

    `stopped`: an exception about the loss ended it, or nothing runs any more. `going-on`: it makes further steps.
    `unknown`: neither logs nor processes tell.
    """
    table, end = case.view("processes", process_table), lost_loss(case)
    again = end is not None and started_since(case, end) is not None
    if end is not None and end.raised and not again:
        return Judgement(verdict="stopped", reason=f"{end.cite.host}: {end.cite.text}")
    coverage = case.coverage("processes")
    running = len(table.by_rank()) if table else 0
    if not running:
        if not coverage.complete:
            return unknown(f"no process seen, but {coverage.describe()}")
        return Judgement(verdict="stopped", reason="no training process is left")
    if end is None or end.step is None:
        return unknown(f"{running} processes run, but no log shows the step at which the loss was lost")
    if again:
        return Judgement(verdict="going-on", reason=f"the launcher started it again; {running} processes run")
    after = max(0, end.history.steps[-1].step - end.step) if end.history.steps else 0
    return Judgement(verdict="going-on", reason=f"{running} processes run; {after} more steps after step {end.step}")
