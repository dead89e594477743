"""The entry for our extender in the configurations of kube-scheduler on this host.

One of them must have it: where a scheduler of our own runs, the cluster's has none.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from gpustack.cli.doctor.check import Found, Severity, judged, ok
from gpustack.cli.doctor.host.facts import HostFacts

_OUR_RESOURCES: Final = ("/vcuda-core", "/vcuda-memory")
_ALL_NODES: Final = 100  # percent
# As the role kube_scheduler writes them (its vars/main.yml says why). A Policy's entry, for
# kube-scheduler before 1.23, is the original's: `predicates` alone, and no resources.
_WANTED: Final[Mapping[str, tuple[object, ...]]] = {
    "filterVerb": ("filter",),
    "prioritizeVerb": ("prioritize", "priorities"),
    "bindVerb": ("bind",),
    "preemptVerb": ("preempt",),
    "nodeCacheCapable": (True,),
    "ignorable": (False, None),
}
_POLICY: Final = "Policy"
_POLICYS_VERB: Final = "predicates"


def entries(facts: HostFacts) -> list[Found]:
    """Say which configurations don't make their scheduler ask our extender as it must."""
    if not facts.schedulers:
        return ok("there is no configuration of kube-scheduler on this host")
    broken = [
        Found(level=Severity.FAIL, subject=each.path, text=each.problem)
        for each in facts.schedulers
        if each.problem
    ]
    readable = [each for each in facts.schedulers if not each.problem]
    ours = [each for each in readable if any(our_entries(each.value))]
    if readable and not ours:
        paths = ", ".join(each.path for each in readable)
        return [
            *broken,
            Found(level=Severity.FAIL, text=f"{paths}: names no extender of gpustack's"),
        ]
    problems = [
        Found(level=Severity.FAIL, subject=file.path, text=text)
        for file in ours
        for text in _problems(file.value)
    ]
    good = f"{', '.join(each.path for each in ours)} has our extender's entry"
    return judged([*broken, *problems], good)


def our_entries(value: object) -> Iterator[Mapping[str, Any]]:
    """Yield our entries that decide; one that only steers other pods away has no resources."""
    for entry in _objects(value.get("extenders") if isinstance(value, dict) else None):
        by_policy = _is_policy(value) and entry.get("filterVerb") == _POLICYS_VERB
        if by_policy or any(_manages(entry, each) for each in _OUR_RESOURCES):
            yield entry


def _is_policy(value: object) -> bool:
    return isinstance(value, dict) and value.get("kind") == _POLICY


def _problems(value: Mapping[str, Any]) -> Iterator[str]:
    if _is_policy(value):
        return
    for entry in our_entries(value):
        yield from _of_entry(entry)
    if value.get("percentageOfNodesToScore") != _ALL_NODES:
        yield f"percentageOfNodesToScore: must be {_ALL_NODES}, or nodes with GPUs may be left out"


def _of_entry(entry: Mapping[str, Any]) -> Iterator[str]:
    for name, wanted in _WANTED.items():
        if entry.get(name) not in wanted:
            word = str(wanted[0]).lower() if isinstance(wanted[0], bool) else wanted[0]
            yield f"extenders[].{name}: must be {word}"
    for name in _OUR_RESOURCES:
        if not _manages(entry, name):
            yield f"extenders[].managedResources: must have DOMAIN{name}"
    if any(each.get("ignoredByScheduler") for each in _resources(entry)):
        yield "extenders[].managedResources[].ignoredByScheduler: must be false"


def _manages(entry: Mapping[str, Any], resource: str) -> bool:
    return any(str(each.get("name", "")).endswith(resource) for each in _resources(entry))


def _resources(entry: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    return _objects(entry.get("managedResources"))


def _objects(value: object) -> Iterator[Mapping[str, Any]]:
    """Yield the objects of a list; a file may have anything in its place."""
    return (each for each in (value if isinstance(value, list) else ()) if isinstance(each, dict))
