"""The certificates and tokens with which the daemons of a host ask the API server."""

import datetime
from collections.abc import Callable, Collection
from typing import Final

from gpustack.cli.doctor.check import Found, Severity, judged
from gpustack.cli.doctor.host.facts import Credential, HostFacts
from gpustack.cli.output.age import seconds_text

_Judge = Callable[[Credential, datetime.datetime], tuple[Severity, str] | None]

_SOON: Final = datetime.timedelta(days=14)
# One that is made for less is renewed by a program, as the kubelet's and bound tokens are: it is
# late in the last tenth of its time (client-go renews in the last three tenths to the last tenth).
_RENEWED: Final = datetime.timedelta(days=28)
_LATE: Final = 0.1
# Of a daemon's token: its timer renews it once a third is used, and has failed for as long then.
_TOKEN_LATE: Final = 1 / 3


def credentials(facts: HostFacts) -> list[Found]:
    """Say which certificates and tokens can't be read, have expired, or soon will."""
    good = f"{len(facts.credentials)} certificates and tokens can be read"
    return _all_judged(facts.credentials, facts.now, good, judge)


def tokens(facts: HostFacts) -> list[Found]:
    """Say which tokens of extender and own scheduler have ended, soon will, or have no end."""
    good = f"{len(facts.tokens)} tokens are renewed"
    return _all_judged(facts.tokens, facts.now, good, _judge_token)


def _all_judged(
    shown: Collection[Credential], now: datetime.datetime, good: str, judge_one: _Judge
) -> list[Found]:
    ends = [each.validity.ends for each in shown if each.validity is not None]
    if ends:
        good += f", the first ends in {seconds_text((min(ends) - now).total_seconds())}"
    problems = (
        Found(level=found[0], subject=f"{each.name} {each.place}".strip(), text=found[1])
        for each in shown
        if (found := judge_one(each, now)) is not None
    )
    return judged(problems, good)


def _judge_token(token: Credential, now: datetime.datetime) -> tuple[Severity, str] | None:
    found, validity = judge(token, now), token.validity
    if found is not None:
        return found
    if validity is None:
        return Severity.WARN, "doesn't end: who has it keeps it"
    left = validity.ends - now
    if left < (validity.ends - validity.begins) * _TOKEN_LATE:
        return Severity.WARN, f"ends in {seconds_text(left.total_seconds())}, and was not renewed"
    return None


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
