"""The certificates and tokens with which the daemons of a host ask the API server."""

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
# Of a daemon's token: its timer renews it once a third is used, and has failed for as long then.
_TOKEN_LATE: Final = 1 / 3


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


def tokens(facts: HostFacts) -> list[Found]:
    """Say which tokens of extender and own scheduler have ended, soon will, or have no end."""
    ends = [each.validity.ends for each in facts.tokens if each.validity is not None]
    good = f"{len(facts.tokens)} tokens are renewed"
    if ends:
        good += f", the first ends in {seconds_text((min(ends) - facts.now).total_seconds())}"
    return judged(_token_problems(facts), good)


def _token_problems(facts: HostFacts) -> Iterator[Found]:
    for each in facts.tokens:
        found = judge(each, facts.now)
        if found is None and each.validity is None:
            found = Severity.WARN, "doesn't end: who has it keeps it"
        elif found is None and each.validity is not None:
            left, whole = each.validity.ends - facts.now, each.validity.ends - each.validity.begins
            if left < whole * _TOKEN_LATE:
                text = f"ends in {seconds_text(left.total_seconds())}, and was not renewed"
                found = Severity.WARN, text
        if found is not None:
            yield Found(level=found[0], subject=f"{each.name} {each.place}".strip(), text=found[1])


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
