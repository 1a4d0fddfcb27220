"""Cron: when jobs run, and what a scheduler does about it.

fields → expression → search → next_run    text to bit masks, and the next time that fits them, in a zone (``zones``)
job, schedule, run_id                      jobs as values; which runs to publish, skip or wait for
near_runs                                  the runs of the near future, in order
"""
