"""Servers that benchmarks compare, LiteMQ among them: each module starts one and returns it as a ``Server``."""
