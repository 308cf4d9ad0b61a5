"""One module a command: `configure(parser)` adds its options, `run(args)` does it and returns the exit code."""
