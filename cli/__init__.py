"""The command line: registry, options, progress and exit codes."""
