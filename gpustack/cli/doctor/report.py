"""What the checks found, for people and for programs."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from itertools import groupby
from typing import Any, Final

from gpustack.cli.doctor.check import CheckResult, NotChecked, Severity
from gpustack.cli.output import printing

_HEAD: Final = ("LEVEL", "CHECK", "FOUND")
_SHOWN: Final = 20  # findings of one check in a table; a cluster may have 300 broken nodes


def show(output: str, found: Sequence[CheckResult | NotChecked]) -> int:
    """Print the findings; return 1 where a check failed, else 0."""
    findings = [each for each in found if isinstance(each, CheckResult)]
    left_out = [each for each in found if isinstance(each, NotChecked)]
    counts = Counter(each.level for each in findings)
    if output == "json":
        printing.show("json", [], as_json(findings, left_out, counts))
    else:
        printing.show_tables([list(_rows(findings)), list(_sums(counts))], whole=True)
        for why, group in groupby(left_out, lambda each: each.why):
            printing.tell(f"not checked: {', '.join(each.check for each in group)}: {why}")
    return 1 if counts[Severity.FAIL] else 0


def as_json(
    findings: Sequence[CheckResult], left_out: Sequence[NotChecked], counts: Counter[Severity]
) -> dict[str, Any]:
    """Return the same as plain values, of the schema `doctor.json`."""
    return {
        "findings": [asdict(each) for each in findings],
        "not_checked": [asdict(each) for each in left_out],
        "sums": {level.value: counts[level] for level in Severity},
    }


def _rows(findings: Sequence[CheckResult]) -> Iterator[Sequence[object]]:
    yield _HEAD
    for check, group in groupby(findings, lambda each: each.check):
        found = list(group)
        for each in found[:_SHOWN]:
            level = each.level.value
            text = f"{each.subject}: {each.found}" if each.subject else each.found
            yield printing.Alarm(level) if each.level is Severity.FAIL else level, check, text
        if len(found) > _SHOWN:
            yield "", "", f"and {len(found) - _SHOWN} more; -o json has all"
        bad = [each for each in found if each.level is not Severity.OK]
        if bad:
            yield "", "", f"why: {bad[0].why}"
            for mend in dict.fromkeys(each.mend for each in bad):
                yield "", "", f"mend: {mend}"


def _sums(counts: Counter[Severity]) -> Iterator[Sequence[object]]:
    yield tuple(level.upper() for level in Severity)
    yield tuple(counts[level] for level in Severity)
