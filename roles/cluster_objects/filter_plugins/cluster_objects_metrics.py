"""The filter that says where hosts serve their metrics, and the objects that name these places."""

import ipaddress
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from ansible.errors import AnsibleFilterError

MOST_ENDPOINTS = 1000  # of one EndpointSlice, as the API server takes them
# ConfigMaps: agents show the kubelets' certificates, of the cluster's authority, which every
# namespace has; that of the extenders is the operator's to make.
_AUTHORITIES = {
    "gpustack-agents": "kube-root-ca.crt",
    "gpustack-extenders": "gpustack-extenders-ca",
}
_ANY = ("", "0.0.0.0", "::")  # noqa: S104 (compared with, not listened on)


def targets(
    hosts: Iterable[str], variables: Mapping[str, Mapping[str, Any]], listen: str
) -> list[dict[str, Any]]:
    """Return host, address and port of each host that serves metrics; others are left out.

    Args:
        hosts: their names in the inventory.
        variables: those of all hosts.
        listen: the name of the variable that says where it listens, empty where it doesn't.
    """
    found = []
    for host in hosts:
        known = variables[host]
        own, _, port = str(known.get(listen) or "").rpartition(":")
        if port:
            own = own.strip("[]")
            named = known.get("cluster_objects_metrics_address") or known.get("ansible_host")
            reached = str(named or host) if own in _ANY else own
            found.append({"host": host, "address": reached, "port": int(port)})
    return found


def file_sd(found: Mapping[str, Sequence[Mapping[str, Any]]]) -> list[dict[str, Any]]:
    """Return the groups of a file for Prometheus's file_sd_configs; ``found``: by job."""
    return [
        {
            "targets": [_joined(each["address"], each["port"])],
            "labels": {"job": job, "host": each["host"]},
        }
        for job, places in found.items()
        for each in places
    ]


def objects(
    found: Mapping[str, Sequence[Mapping[str, Any]]], namespace: str, operator: bool
) -> list[dict[str, Any]]:
    """Return a Service and its EndpointSlice by job, and a ServiceMonitor where there are such."""
    made: list[dict[str, Any]] = []
    for job, places in found.items():
        if places:
            made += [_service(job, places, namespace), _slice(job, places, namespace)]
            made += [_monitor(job, namespace)] if operator else []
    return made


def _service(job: str, places: Sequence[Mapping[str, Any]], namespace: str) -> dict[str, Any]:
    port = _port(job, places)
    scraped = {"scrape": "true", "scheme": "https", "path": "/metrics", "port": str(port)}
    annotations = {f"prometheus.io/{name}": value for name, value in scraped.items()}
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {**_metadata(job, namespace), "annotations": annotations},
        "spec": {"clusterIP": "None", "ports": [{"name": "metrics", "port": port}]},
    }


def _slice(job: str, places: Sequence[Mapping[str, Any]], namespace: str) -> dict[str, Any]:
    families = {f"IPv{_version(each)}" for each in places}
    if len(families) > 1 or len(places) > MOST_ENDPOINTS:
        raise AnsibleFilterError(
            f"{job}: an EndpointSlice holds {MOST_ENDPOINTS} addresses of one family, and there are"
            f" {len(places)} of {' and '.join(sorted(families))}: set cluster_objects_metrics to"
            " false, and use cluster_objects_metrics_file"
        )
    metadata = _metadata(job, namespace)
    metadata["labels"] |= {
        "kubernetes.io/service-name": job,
        "endpointslice.kubernetes.io/managed-by": "gpustack",
    }
    return {
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": metadata,
        "addressType": families.pop(),
        "ports": [{"name": "metrics", "port": _port(job, places), "protocol": "TCP"}],
        "endpoints": [
            {"addresses": [each["address"]], "conditions": {"ready": True}} for each in places
        ],
    }


def _monitor(job: str, namespace: str) -> dict[str, Any]:
    authority = {"configMap": {"name": _AUTHORITIES[job], "key": "ca.crt"}}
    endpoint = {
        "port": "metrics",
        "scheme": "https",
        "honorLabels": True,  # the namespace of a sample is a tenant's, not the Service's
        "bearerTokenFile": "/var/run/secrets/kubernetes.io/serviceaccount/token",
        "tlsConfig": {"ca": authority},
    }
    return {
        "apiVersion": "monitoring.coreos.com/v1",
        "kind": "ServiceMonitor",
        "metadata": _metadata(job, namespace),
        "spec": {
            "selector": {"matchLabels": {"app.kubernetes.io/name": job}},
            "endpoints": [endpoint],
        },
    }


def _metadata(job: str, namespace: str) -> dict[str, Any]:
    return {"name": job, "namespace": namespace, "labels": {"app.kubernetes.io/name": job}}


def _port(job: str, places: Sequence[Mapping[str, Any]]) -> int:
    ports = {each["port"] for each in places}
    if len(ports) > 1:
        raise AnsibleFilterError(f"{job}: one port must be the same on all hosts, not {ports}")
    return int(ports.pop())


def _version(place: Mapping[str, Any]) -> int:
    try:
        return ipaddress.ip_address(place["address"]).version
    except ValueError as error:
        raise AnsibleFilterError(
            f"{place['host']}: {place['address']} is no IP address: set"
            " cluster_objects_metrics_address of that host"
        ) from error


def _joined(address: str, port: int) -> str:
    return f"[{address}]:{port}" if ":" in address else f"{address}:{port}"


class FilterModule:
    """Ansible's entry point."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """Return the filters by the names that templates use."""
        return {
            "cluster_objects_targets": targets,
            "cluster_objects_file_sd": file_sd,
            "cluster_objects_monitoring": objects,
        }
