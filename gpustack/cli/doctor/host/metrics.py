"""Where other machines read metrics: the daemons' answers, certificates and their names."""

from collections.abc import Iterator
from typing import Final

from gpustack.cli.doctor.check import Found, Severity, judged, ok
from gpustack.cli.doctor.host import credentials
from gpustack.cli.doctor.host.facts import HostFacts, MetricsAddress

_OK: Final = 200
_REFUSED: Final = 401


def addresses(facts: HostFacts) -> list[Found]:
    """Say which address doesn't answer, is open to all, or shows a certificate of no use."""
    if not facts.metrics:
        return ok("no configuration lets other machines read metrics (metrics.listen)")
    where = ", ".join(f"{each.daemon} at {each.listen}" for each in facts.metrics)
    problems = (found for each in facts.metrics for found in _problems(each, facts))
    return judged(problems, f"{where} answers, and refuses readers without rights")


def _problems(address: MetricsAddress, facts: HostFacts) -> Iterator[Found]:
    subject = f"{address.daemon} at {address.listen}"
    certificate = credentials.judge(address.certificate, facts.now)
    if certificate is not None:
        level, text = certificate
        place = address.certificate.place
        yield Found(level=level, subject=subject, text=f"its certificate {place}: {text}")
    if address.unnamed:
        text = f"its certificate doesn't name {address.unnamed}: readers that go there refuse it"
        yield Found(level=Severity.WARN, subject=subject, text=text)
    problem = address.problem or _unexpected(address.status)
    if problem:
        yield Found(level=Severity.FAIL, subject=subject, text=problem)


def _unexpected(status: int | None) -> str:
    if status == _OK:
        return "lets a reader without certificate and token read"
    if status in {None, _REFUSED}:
        return ""
    return f"answers a reader without rights with status {status}, not {_REFUSED}"
