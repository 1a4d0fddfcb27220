"""What ``litemq pipeline NAME`` does: one module per job, each plain values in and a report out."""
