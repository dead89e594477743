"""Kubeconfig files, merged and checked as kubectl does it, with errors that name file and line.

https://kubernetes.io/docs/concepts/configuration/organize-cluster-access-kubeconfig/ : the first
file to set a value or to name an entry wins, files of a list that aren't there are passed over, and
a relative path is relative to the file in which it stands.
"""

import base64
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import urllib3

from gpustack.adapters.kube.errors import KubeConfigError, KubeConfigMissing
from gpustack.wire.files import regular_file
from gpustack.wire.files.documents import BadDocument, Document, documents

_KINDS: Final = ("cluster", "user", "context")
_TEXTS: Final[Mapping[str, Sequence[str]]] = {
    "cluster": (
        "server", "certificate-authority", "certificate-authority-data", "tls-server-name",
        "proxy-url",
    ),
    "user": (
        "client-certificate", "client-certificate-data", "client-key", "client-key-data", "token",
        "tokenFile", "username", "password",
    ),
    "context": ("cluster", "user", "namespace"),
}  # fmt: skip
_FILES: Final = ("certificate-authority", "client-certificate", "client-key", "tokenFile")
_MOST_BYTES: Final = 1 << 24  # thousands of clusters and users, of some 5 KB with certificates
_QUOTES: Final = "must be a text; put it in quotes"  # without its value, a secret perhaps
_UNKNOWN_USER: Final = ("as", "as-uid", "as-groups", "as-user-extra")


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """A cluster, and the identity of a user there.

    Attributes:
        name: the context's.
        origin: the files that it was read from, as errors name them.
        namespace: the default namespace of its user; empty: none is set.
        cluster: the fields of its cluster, with absolute paths.
        user: the fields of its user, with absolute paths; empty where it names none.
    """

    name: str
    origin: str
    namespace: str
    cluster: Mapping[str, Any]
    user: Mapping[str, Any] = field(repr=False)


def read(paths: Sequence[Path], context: str | None = None) -> Context:
    """Return one context of these files; left out, the current one.

    Raises:
        KubeConfigMissing: none of the files is there.
        KubeConfigError: one of them is no kubeconfig, or the context can't be used; names file,
            line and field.
    """
    files = [found for path in paths if (found := _read(path)) is not None]
    if not files:
        raise KubeConfigMissing(f"kubeconfig {_titles(paths)}: No such file or directory")
    origin = _titles([each.path for each in files])
    entries = {kind: _merged(files, kind) for kind in _KINDS}
    name = context or next((each.current for each in files if each.current), "")
    known = ", ".join(sorted(entries["context"])) or "none"
    if not name:
        raise KubeConfigError(f"kubeconfig {origin}: current-context: is not set; there is {known}")
    if name not in entries["context"]:
        raise KubeConfigError(
            f"kubeconfig {origin}: no context is named {name!r}; there is {known}"
        )
    chosen = entries["context"][name]
    cluster, user = chosen.named("cluster", entries), chosen.named("user", entries)
    if cluster is None:
        raise chosen.error("cluster", "is missing")
    return Context(
        name=name,
        origin=origin,
        namespace=chosen.fields.get("namespace") or "",
        cluster=_reachable(cluster).usable(),
        user={} if user is None else _supported(user).usable(),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Entry:
    """One named cluster, user or context.

    Attributes:
        kind: which of the three.
        place: its fields' place in the document.
        fields: those that are set.
        path: the file.
        document: its content.
    """

    kind: str
    place: str
    fields: Mapping[str, Any]
    path: Path
    document: Document

    def error(self, field: str, problem: str) -> KubeConfigError:
        """Return an error with the file and line of a field."""
        return _error(self.document, f"{self.place}.{field}", problem)

    def check(self) -> None:
        """Refuse fields of another type than Kubernetes'."""
        for name in _TEXTS[self.kind]:
            value = self.fields.get(name)
            if value is not None and not isinstance(value, str):
                raise self.error(name, _QUOTES)
            if name.endswith("-data") and value and not _is_base64(value):
                raise self.error(name, "is not base64")

    def named(self, kind: str, entries: Mapping[str, Mapping[str, "_Entry"]]) -> "_Entry | None":
        """Return the cluster or the user that a context names; None where it names none."""
        self.check()
        name = self.fields.get(kind)
        if not name:
            return None
        if name not in entries[kind]:
            known = ", ".join(sorted(entries[kind])) or "none"
            raise self.error(kind, f"no {kind} is named {name!r}; there is {known}")
        return entries[kind][name]

    def usable(self) -> dict[str, Any]:
        """Return the fields, with absolute paths."""
        self.check()
        folder = self.path.absolute().parent
        fields = dict(self.fields)
        for name in _FILES:
            if name in fields:
                named = folder / fields[name]
                if named.exists() and not named.is_file():  # a FIFO would keep its reader for ever
                    raise self.error(name, f"{named} is no regular file; put one in its place")
                fields[name] = str(named)
        command = (fields.get("exec") or {}).get("command")
        if isinstance(command, str) and os.sep in command:  # without one, $PATH says where
            fields["exec"] = {**fields["exec"], "command": str(folder / command)}
        return fields


@dataclass(frozen=True, slots=True, kw_only=True)
class _File:
    path: Path
    current: str
    entries: Mapping[str, Mapping[str, _Entry]]


def _titles(paths: Sequence[Path]) -> str:
    return os.pathsep.join(map(str, paths))


def _merged(files: Sequence[_File], kind: str) -> dict[str, _Entry]:
    merged: dict[str, _Entry] = {}
    for file in files:
        merged = {**file.entries[kind], **merged}
    return merged


def _text(path: Path) -> str | None:
    """Return a file's text; None where there is no such file."""
    try:
        return regular_file.read_named(path, max_bytes=_MOST_BYTES).decode("utf-8-sig")
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise KubeConfigError(f"kubeconfig {path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise KubeConfigError(f"kubeconfig {path}: is not UTF-8 text: {error}") from error
    except ValueError as error:
        raise KubeConfigError(f"kubeconfig {path}: {error}") from error


def _read(path: Path) -> _File | None:
    text = _text(path)
    if text is None:
        return None
    try:
        document, *more = documents(str(path), text)
    except BadDocument as error:
        raise KubeConfigError(f"kubeconfig {error}") from error
    if more:
        raise KubeConfigError(f"kubeconfig {path}: holds {1 + len(more)} documents; leave one")
    if not isinstance(document.value, dict):
        raise KubeConfigError(f"kubeconfig {path}: must be an object with clusters and contexts")
    current = document.value.get("current-context") or ""
    if not isinstance(current, str):
        raise _error(document, "current-context", _QUOTES)
    entries = {kind: dict(_entries(path, document, kind)) for kind in _KINDS}
    return _File(path=path, current=current, entries=entries)


def _error(document: Document, field: str, problem: str) -> KubeConfigError:
    return KubeConfigError(f"kubeconfig {document.place(field)}: {problem}")


def _entries(path: Path, document: Document, kind: str) -> Iterator[tuple[str, _Entry]]:
    """Yield the entries of a list by name."""
    values = document.value.get(f"{kind}s") or []
    if not isinstance(values, list):
        raise _error(document, f"{kind}s", "must be an array")
    names = set()
    for index, value in enumerate(values):
        at = f"{kind}s[{index}]"
        name = value.get("name") if isinstance(value, dict) else None
        fields = (value.get(kind) or {}) if isinstance(value, dict) else None
        if not isinstance(name, str) or not isinstance(fields, dict):
            raise _error(document, at, f"must have a name and an object {kind}")
        if name in names:
            raise _error(document, at, f"the name {name!r} stands twice")
        names.add(name)
        kept = {key: each for key, each in fields.items() if each not in (None, "")}
        yield (
            name,
            _Entry(place=f"{at}.{kind}", kind=kind, fields=kept, path=path, document=document),
        )


def _is_base64(text: str) -> bool:
    try:
        base64.b64decode("".join(text.split()), validate=True)
    except ValueError:
        return False
    return True


def _reachable(cluster: _Entry) -> _Entry:
    """Refuse a server URL that takes no request: the server would look as if it were down."""
    cluster.check()
    server = cluster.fields.get("server", "")
    try:
        url = urllib3.util.parse_url(server)
        usable = url.scheme in (None, "http", "https") and bool(url.host)
    except urllib3.exceptions.LocationParseError:
        usable = False
    if not usable:
        raise cluster.error("server", f"{server!r} is no server; write it as https://HOST:6443")
    return cluster


def _supported(user: _Entry) -> _Entry:
    """Refuse a user whose identity we don't support, by its field."""
    for name in _UNKNOWN_USER:
        if name in user.fields:
            raise user.error(name, "impersonation is not supported; leave it out")
    plugin, provider = user.fields.get("exec"), user.fields.get("auth-provider")
    for name, value in (("exec", plugin), ("auth-provider", provider)):
        if value is not None and not isinstance(value, dict):
            raise user.error(name, "must be an object")
    if provider is not None and provider.get("name") != "oidc":
        text = f"{provider.get('name')!r} is not supported, as in kubectl; use an exec plugin"
        raise user.error("auth-provider", text)
    return user
