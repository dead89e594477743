"""The certificates and tokens with which the agent asks the API server."""

import datetime
from collections.abc import Iterator
from typing import Final

from gpustack.cli.doctor.check import Found, Severity, judged
from gpustack.cli.doctor.host.facts import Credential, HostFacts
from gpustack.cli.output.age import seconds_text

_SOON: Final = datetime.timedelta(days=14)
# One that is made for less is renewed by a program, as the kubelet's and bound tokens are: it is
# late in the last tenth of its time (client-go renews in the last three tenths to the last tenth).
_RENEWED: Final = datetime.timedelta(days=28)
_LATE: Final = 0.1


def credentials(facts: HostFacts) -> list[Found]:
    """Say which certificates and tokens can't be read, have expired, or soon will."""
    ends = [each.validity.ends for each in facts.credentials if each.validity is not None]
    good = f"{len(facts.credentials)} certificates and tokens can be read"
    if ends:
        good += f", the first ends in {seconds_text((min(ends) - facts.now).total_seconds())}"
    return judged(_problems(facts), good)


def _problems(facts: HostFacts) -> Iterator[Found]:
    for each in facts.credentials:
        found = judge(each, facts.now)
        if found is not None:
            level, text = found
            subject = f"{each.name} {each.place}".strip()
            yield Found(level=level, subject=subject, text=text)


def judge(credential: Credential, now: datetime.datetime) -> tuple[Severity, str] | None:
    """Say how bad a certificate or token is, and why; None where nothing is wrong with it."""
    if credential.problem:
        return Severity.FAIL, credential.problem
    validity = credential.validity
    if validity is None:
        return None
    left, whole = validity.ends - now, validity.ends - validity.begins
    moment = validity.ends.isoformat(timespec="seconds")
    if left <= datetime.timedelta():
        return Severity.FAIL, f"has expired: {moment}"
    if validity.begins > now:
        return Severity.FAIL, f"begins at {validity.begins.isoformat(timespec='seconds')}"
    limit = _SOON if whole >= _RENEWED else whole * _LATE
    if left < limit:
        return Severity.WARN, f"ends in {seconds_text(left.total_seconds())}: {moment}"
    return None
