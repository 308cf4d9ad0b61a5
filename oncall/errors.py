"""Everything that ends a command early, each with its cause, the way out and an exit code."""


class OncallError(Exception):
    """A failure the operator can read: `cause` says what is wrong, `hint` the way out.

    `exit_code` follows the table in the README: 1 internal, 2 usage or configuration.
    """

    exit_code = 1

    def __init__(self, cause: str, hint: str | None = None) -> None:
        super().__init__(cause)
        self.cause = cause
        self.hint = hint


class UsageError(OncallError):
    """The command line asks for something that cannot be: a missing file, two options that exclude each other."""

    exit_code = 2


class ConfigError(OncallError):
    """A run file, rank map or playbook that cannot be used; `problems` lists every mistake, each with file and line."""

    exit_code = 2

    def __init__(self, problems: list[str], hint: str | None = None) -> None:
        super().__init__("\n".join(problems), hint)
        self.problems = problems


class BundleError(OncallError):
    """A bundle cannot be written."""
