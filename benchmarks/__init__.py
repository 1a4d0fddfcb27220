"""Benchmarks of LiteMQ: ratios within one run and CPU time per message, never a timed test."""
