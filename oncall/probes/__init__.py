"""Probes: each puts one question to the nodes and decides nothing. The scripts beside the modules are POSIX shell."""
