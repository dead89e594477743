"""The API server, the schedulers and the admission policies: is each there, and of this release."""

from collections.abc import Iterator
from typing import Final

from gpustack.cli.doctor.check import Found, Severity, judged, ok
from gpustack.cli.doctor.cluster.facts import ClusterFacts, Lease, parse_version
from gpustack.cli.doctor.cluster.laid_policies import LAID
from gpustack.cli.output.age import seconds_text

OLDEST: Final = (1, 25)
NEWEST: Final = (1, 37)
_POLICIES_FROM: Final = (1, 30)  # ValidatingAdmissionPolicy is stable from then on
_CLOCKS_SECONDS: Final = 5.0  # by which this host's clock and the API server's may differ


def api_server(facts: ClusterFacts) -> list[Found]:
    """Say whether the API server is of a version that is supported."""
    found = parse_version(facts.version)
    text = f"Kubernetes {facts.version} answers"
    oldest, newest = (".".join(map(str, each)) for each in (OLDEST, NEWEST))
    if found is None:
        return [Found(level=Severity.WARN, text=f"{text}, which is no version of Kubernetes")]
    if found < OLDEST:
        return [Found(level=Severity.FAIL, text=f"{text}; the oldest that works is {oldest}")]
    if found > NEWEST:
        return [Found(level=Severity.WARN, text=f"{text}; the newest that was tried is {newest}")]
    return ok(text)


def leases(facts: ClusterFacts) -> list[Found]:
    """Say whether each scheduler has a leader: the leader asks the extender beside it."""
    if not facts.leases:
        text = "no scheduler has a lease in kube-system, so that none can be seen to run"
        return [Found(level=Severity.WARN, text=text)]
    leading = ", ".join(f"{each.holder} leads {each.name}" for each in facts.leases)
    return judged(_stale(facts), leading)


def _stale(facts: ClusterFacts) -> Iterator[Found]:
    for lease in facts.leases:
        problem = _problem(lease, facts)
        if problem:
            yield Found(level=Severity.FAIL, subject=f"lease {lease.name}", text=problem)


def _problem(lease: Lease, facts: ClusterFacts) -> str:
    if not lease.holder:
        return "no scheduler holds it"
    if lease.renewed is None:
        return f"{lease.holder} holds it, and spec.renewTime is no moment"
    age = (facts.now - lease.renewed).total_seconds()
    if age <= lease.seconds + _CLOCKS_SECONDS:
        return ""
    return (
        f"{lease.holder} renewed it {seconds_text(age)} ago, and it holds for"
        f" {lease.seconds:g} s: no scheduler leads"
    )


def policies(facts: ClusterFacts) -> list[Found]:
    """Say whether each admission policy is there, is this release's, and is bound."""
    version = parse_version(facts.version)
    if not facts.policies.served or (version is not None and version < _POLICIES_FROM):
        text = "this API server has no ValidatingAdmissionPolicy: extender and agent refuse alone"
        mend = "upgrade to Kubernetes 1.30 or newer, then run site.yml"
        return [Found(level=Severity.WARN, text=text, mend=mend)]
    return judged(_missing(facts), f"{len(LAID)} policies, as this release lays them")


def _missing(facts: ClusterFacts) -> Iterator[Found]:
    there, denying = facts.policies.policies, facts.policies.denying
    for name, laid in LAID.items():
        policy, subject = there.get(name), f"policy {name}"
        if policy is None:
            yield Found(level=Severity.FAIL, subject=subject, text="is missing")
            continue
        if name not in denying:
            text = "no ValidatingAdmissionPolicyBinding denies by it"
            yield Found(level=Severity.FAIL, subject=subject, text=text)
        if not policy.refuses:
            text = "its failurePolicy isn't Fail: an error of it lets the request pass"
            yield Found(level=Severity.FAIL, subject=subject, text=text)
        if (policy.variables, policy.validations) != (laid.variables, laid.validations):
            text = "is another release's, or was changed: its variables or rules are others"
            yield Found(level=Severity.WARN, subject=subject, text=text)
