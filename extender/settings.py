"""The configuration file as values; its schema and defaults are ``wire/schemas/extender.json``."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Final

from extender.http.interface import HttpSettings
from gpustack.adapters.web import remote_metrics
from gpustack.adapters.web.listen_address import split_listen
from gpustack.adapters.web.tls import ClientTlsFiles, TlsContexts, TlsFiles
from gpustack.wire import config, schemas
from gpustack.wire.nodes import NodeLabels

# Names that configurations of the original GPUManager have, and where they stand in ours.
_ALIASES: Final = {
    "QuotaConfigMapName": ("quota", "name"),
    "QuotaConfigMapNamespace": ("quota", "namespace"),
    "quota_on_error": ("quota", "on_error"),
    "GPUModelLabel": ("labels", "model"),
    "GPUPoolLabel": ("labels", "pool"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class QuotaSource:
    """The ConfigMap with the quota.

    Attributes:
        namespace: where it is.
        name: what it is called.
        deny: refuse pods while it can't be used, instead of keeping the last good one.
    """

    namespace: str
    name: str
    deny: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class UsageSource:
    """How agents are asked how busy their cards are.

    Attributes:
        port: of their `metrics.listen`, at the node's internal address.
        tls: the certificate that we show them, and the authorities of theirs.
    """

    port: int
    tls: ClientTlsFiles

    def check(self) -> None:
        """Raise a TlsError where the files can't be used."""
        TlsContexts(self.tls)


@dataclass(frozen=True, slots=True, kw_only=True)
class ExtenderSettings(HttpSettings):
    """What an operator decides.

    Attributes:
        kubeconfig: our identity at the API server.
        domain: domain of resources and annotations.
        policy: which of the nodes and cards that fit is chosen.
        labels: the nodes' labels for pool and model.
        quota: where the quota is.
        reservation_seconds: how long an unbound pod keeps its cards.
        decision_seconds: longest time for one decision, its write included.
        watch_idle_seconds: silence after which a watch is opened again.
        stale_seconds: silence after which what a watch has told is no ground for decisions.
        metrics: where other machines read metrics; None where none does.
        usage: how agents are asked how busy their cards are; None where none is.
    """

    kubeconfig: Path
    domain: str
    policy: str
    labels: NodeLabels
    quota: QuotaSource
    reservation_seconds: float
    decision_seconds: float
    watch_idle_seconds: float
    stale_seconds: float
    metrics: remote_metrics.RemoteMetrics | None = None
    usage: UsageSource | None = None


def load(path: Path | None, listen: str | None = None) -> ExtenderSettings:
    """Read and check a configuration file; without one, the defaults.

    Args:
        path: the file.
        listen: an address that counts instead of the file's.

    Raises:
        ConfigError: unreadable, against the schema, a value twice under two names, or listening
            beyond this host without TLS.
    """
    schema = schemas.load("extender")
    given = {} if listen is None else {"listen": listen}
    if problems := schemas.problems(schema, given):
        raise config.ConfigError(Path("--listen"), problems)
    title = path or Path("the defaults")
    values = (
        config.load_config(path, "extender") if path else config.parse_config("", schema, title)
    )
    values.update(given)
    problems = _take_aliases(values)
    host, port, problem = split_listen(values["listen"], tls=values["tls"] is not None)
    problems += [f"listen: {values['listen']!r} {problem}"] if problem else []
    values["metrics"], wrong = remote_metrics.read(values["metrics"])
    problems += wrong
    if values["stale_seconds"] <= values["watch_idle_seconds"]:
        problems.append(
            f"stale_seconds: {values['stale_seconds']:g} must be more than watch_idle_seconds "
            f"({values['watch_idle_seconds']:g}): a quiet watch is opened again first"
        )
    if problems:
        raise config.ConfigError(title, problems)
    return _settings(values, host, port)


def _settings(values: Mapping[str, Any], host: str, port: int) -> ExtenderSettings:
    quota, tls, usage = values["quota"], values["tls"], values["usage"]
    names = {each.name for each in fields(ExtenderSettings)}
    read = {
        "host": host,
        "port": port,
        "allowed_hosts": tuple(values["allowed_hosts"]),
        "kubeconfig": Path(values["kubeconfig"]),
        "labels": NodeLabels(**values["labels"]),
        "quota": QuotaSource(
            namespace=quota["namespace"], name=quota["name"], deny=quota["on_error"] == "deny"
        ),
        "tls": _tls(tls) if tls is not None else None,
        "usage": _usage(usage) if usage is not None else None,
        "log_level": str(values["log_level"]).upper(),
    }
    return ExtenderSettings(**{name: values[name] for name in names & values.keys()} | read)


def _tls(values: Mapping[str, str]) -> TlsFiles:
    return TlsFiles(
        certificate=Path(values["certificate"]),
        key=Path(values["key"]),
        client_ca=Path(values["client_ca"]),
        client_name=values["client_name"],
    )


def _usage(values: Mapping[str, Any]) -> UsageSource:
    files = ClientTlsFiles(
        certificate=Path(values["certificate"]),
        key=Path(values["key"]),
        ca=Path(values["ca"]),
        section="usage",
    )
    return UsageSource(port=values["port"], tls=files)


def _take_aliases(values: dict[str, Any]) -> list[str]:
    """Put what stands under another name where it belongs; returns the problems."""
    properties = schemas.load("extender")["properties"]
    problems = []
    for alias, (section, name) in _ALIASES.items():
        if alias not in values:
            continue
        default = properties[section]["properties"][name]["default"]
        said = values[section][name]
        if said not in (default, values[alias]):
            problems.append(f"{alias}: {values[alias]!r}, but {section}.{name} is {said!r}")
        values[section] = {**values[section], name: values[alias]}
    return problems
