"""Opens the way to the nodes that a run file asks for."""

from oncall.reach.local import LocalReach
from oncall.reach.protocol import Reach
from oncall.reach.ssh import SshReach
from oncall.run.model import Reach as ReachOptions


def open_reach(options: ReachOptions) -> Reach:
    """The reach of a run. Raises ConfigError where a key or a known_hosts file cannot be used."""
    return LocalReach() if options.via == "local" else SshReach(options)
