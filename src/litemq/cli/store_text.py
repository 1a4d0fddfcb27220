"""What ``litemq store`` prints for people."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from litemq.cli import output

if TYPE_CHECKING:
    from litemq.format.limits import Facts
    from litemq.store.info import StoreInfo
    from litemq.store.rebuild import RebuildReport
    from litemq.store.verify import VerifyReport


def show_verify(report: VerifyReport) -> None:
    """Print what a check found, then each damage."""
    fields: list[tuple[str, object]] = [
        ("path", report.path),
        ("format", report.format or "nothing written yet"),
        ("segments", report.segments),
        ("records", f"{report.records} ({output.size_text(report.bytes)}, {report.unchecked} unchecked)"),
        ("damage", f"{report.damage.torn} torn, {report.damage.corrupt} corrupt"),
    ]
    if report.damage.skipped_bytes:
        fields.append(("skipped", output.size_text(report.damage.skipped_bytes)))
    if (queues := report.consume_queue) is not None:
        counts = f"{queues.missing} missing, {queues.wrong} wrong, {queues.dangling} dangling"
        fields.append(("consume queue", f"{queues.queues} queues, {queues.entries} entries: {counts}"))
    if (index := report.index) is not None:
        counts = f"{index.missing} missing, {index.wrong} wrong"
        fields.append(("index", f"{index.files} files, {index.entries} entries: {counts}"))
    fields.append(("result", "ok" if report.is_ok else "not ok; see: litemq store repair --help"))
    output.write_fields(fields)
    for damage in report.damage.listed:
        output.write_line(output.one_line(output.damage_text(damage)))


def show_info(found: StoreInfo) -> None:
    """Print what a store holds, then its queues."""
    times = "none"
    if found.checkpoint is not None:
        times = ", ".join(f"{name} {output.time_text(time)}" for name, time in found.checkpoint.items())
    output.write_fields(
        [
            ("path", found.path),
            ("kind", found.kind),
            ("format", found.format or "nothing written yet"),
            ("segments", found.segments),
            ("positions", f"{found.first_position} to {found.end_position}"),
            ("times", f"{output.time_text(found.first_time)} to {output.time_text(found.last_time)}"),
            ("clean", "yes" if found.clean else "no: abort exists"),
            ("checkpoint", times),
            ("on disk", output.size_text(found.disk_bytes)),
            ("queues", len(found.topics)),
        ]
    )
    if found.topics:
        output.write_line()
        output.write_table(
            ("topic", "queue", "min offset", "max offset"),
            [(queue.topic, queue.queue_id, queue.min_offset, queue.max_offset) for queue in found.topics],
        )


def show_formats(known: Iterable[Facts]) -> None:
    """Print one row for each format."""
    output.write_table(
        ("format", "magic", "written by", "checked", "topic", "properties", "body", "lacks"),
        [
            (
                facts.name,
                f"0x{facts.magic:08X}",
                facts.written_by,
                facts.checked,
                facts.limits.topic,
                facts.limits.properties,
                facts.limits.body,
                " ".join(facts.lacks) or "-",
            )
            for facts in known
        ],
    )


def warn_of_left_out(report: RebuildReport) -> None:
    """Warn of each record without entries: damaged ones as ``dump`` does, then those that no queue can have."""
    damage, rejected = report.damage, report.rejected
    for found in damage.listed:
        output.warn(output.damage_text(found))
    for position, reason in rejected.listed:
        output.warn(f"record at {position} is left out: {reason}")
    more = damage.torn + damage.corrupt - len(damage.listed) + rejected.count - len(rejected.listed)
    if more:
        output.warn(f"{more} more records are left out")


def show_object(value: Mapping[str, object]) -> None:
    """Print the report of a command that changes files, name by name."""
    output.write_fields((name.replace("_", " "), _shown(inner)) for name, inner in value.items())


def _shown(value: object) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name}: {_shown(inner)}" for name, inner in value.items()) or "none"
    if isinstance(value, list):
        return "; ".join(_shown(inner) for inner in value) or "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return "-" if value is None else str(value)
