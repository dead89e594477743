"""Events on pods: the numbers behind a refusal, where `kubectl describe pod` shows them.

No caller waits for an event: one thread writes them from a queue, once a minute at most for
the same pod and topic, and drops them when the API server can't keep up: those of the namespace
that has the most. Namespaces have turns, so that one with thousands of pods silences no other. Of a
wave of pods that fit, some get an Event that names their cards, which their annotations do as well;
pods that don't fit need their Events more.
"""

import collections
import datetime
import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from gpustack.adapters.kube.client import KubeClient
from gpustack.adapters.kube.errors import KubeError, KubeUnavailable
from gpustack.adapters.kube.fair_queue import FairQueue
from gpustack.wire.one_line import one_line

logger = logging.getLogger(__name__)

_QUEUE_EVENTS: Final = 1000
_REMEMBERED: Final = 10_000
_REPEAT_SECONDS: Final = 60.0
_LONGEST_MESSAGE: Final = 1024  # limit of core/v1 Event
_PER_SECOND: Final = 20  # an Event costs the API server as much as a binding
_CLUSTER: Final = "default"  # where Events of objects without a namespace lie
_GOOD_NEWS: Final = 20  # Events that aren't warnings: so many at once,
_GOOD_NEWS_PER_SECOND: Final = 1  # and in the long run


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectEvent:
    """An Event about a pod, or another object of core/v1.

    Attributes:
        kind: the object's.
        namespace: the object's; empty for one without, such as a node.
        name: its name.
        uid: its UID.
        reason: a stable code.
        message: a sentence, or a function that words it when the Event is written.
        warning: decides the Event's type.
        topic: its subject: an object gets one Event a minute about it; empty: its reason.
    """

    kind: str = "Pod"
    namespace: str
    name: str
    uid: str
    reason: str
    message: str | Callable[[], str]
    warning: bool
    topic: str = ""


class EventRecorder:
    """Writes events to the API server in the background.

    Attributes:
        dropped: how many were not written.
    """

    def __init__(
        self,
        client: KubeClient,
        *,
        component: str,
        on_drop: Callable[[], None] = lambda: None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Compose; ``component`` is the Events' source, ``on_drop`` gets each dropped one."""
        self._client = client
        self._component = component
        self._tell_drop = on_drop
        self.dropped = 0
        self._clock = clock
        self._queue: FairQueue[ObjectEvent] = FairQueue(_QUEUE_EVENTS)
        self._lock = threading.Lock()
        self._told: collections.OrderedDict[tuple[str, str], float] = collections.OrderedDict()
        self._allowed, self._allowed_at = float(_GOOD_NEWS), clock()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="events", daemon=True)

    def start(self) -> None:
        """Begin to write."""
        self._thread.start()

    def stop(self) -> None:
        """End; what is still queued is dropped."""
        self._stop.set()
        self._queue.close()
        if self._thread.ident is not None:
            self._thread.join(timeout=5)

    def told(self, uid: str, topic: str) -> bool:
        """Say whether a pod got an Event of this topic within the last minute."""
        with self._lock:
            last = self._told.get((uid, topic))
            return last is not None and self._clock() - last < _REPEAT_SECONDS

    def record(self, event: ObjectEvent) -> None:
        """Queue an event, unless this pod got one of its topic within the last minute."""
        key = (event.uid, event.topic or event.reason)
        if self.told(*key):
            return
        if not event.warning and not self._may_tell_good_news():
            self._on_drop()
            return
        with self._lock:
            self._told[key] = self._clock()
            self._told.move_to_end(key)
            if len(self._told) > _REMEMBERED:
                self._told.popitem(last=False)
        if not self._queue.put(event.namespace, event):
            self._on_drop()

    def _may_tell_good_news(self) -> bool:
        with self._lock:
            now = self._clock()
            earned = (now - self._allowed_at) * _GOOD_NEWS_PER_SECOND
            self._allowed, self._allowed_at = min(_GOOD_NEWS, self._allowed + earned), now
            if self._allowed < 1:
                return False
            self._allowed -= 1
            return True

    def _on_drop(self) -> None:
        self.dropped += 1
        self._tell_drop()

    def _write(self, event: ObjectEvent) -> None:
        path = f"/api/v1/namespaces/{event.namespace or _CLUSTER}/events"
        self._client.post(path, _body(event, self._component))

    def _run(self) -> None:
        while not self._stop.is_set():
            event = self._queue.get()
            if event is None:
                return
            try:
                self._write(event)
            except KubeError as error:
                self._on_drop()
                logger.warning("event refused object=%s/%s %s", event.namespace, event.name, error)
            except KubeUnavailable as error:
                self._on_drop()
                logger.warning("event lost object=%s/%s %s", event.namespace, event.name, error)
            except Exception:
                # Last resort of this thread: an Event that can't be worded drops alone.
                self._on_drop()
                logger.exception("event not worded object=%s/%s", event.namespace, event.name)
            self._stop.wait(1 / _PER_SECOND)


def _body(event: ObjectEvent, component: str) -> dict[str, Any]:
    now = datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    message = event.message if isinstance(event.message, str) else event.message()
    message = one_line(message, _LONGEST_MESSAGE * 2)
    if len(message.encode()) > _LONGEST_MESSAGE:
        message = message.encode()[: _LONGEST_MESSAGE - 3].decode(errors="ignore") + "…"
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {
            "generateName": f"{event.name[:200]}.",
            "namespace": event.namespace or _CLUSTER,
        },
        "involvedObject": {
            "apiVersion": "v1",
            "kind": event.kind,
            **({"namespace": event.namespace} if event.namespace else {}),
            "name": event.name,
            "uid": event.uid,
        },
        "reason": event.reason,
        "message": message,
        "type": "Warning" if event.warning else "Normal",
        "source": {"component": component},
        "reportingComponent": component,
        "firstTimestamp": now,
        "lastTimestamp": now,
        "count": 1,
    }
