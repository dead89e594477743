"""`gpustack.v1.Control`, for root alone: the service, and its client."""

import pathlib
from collections.abc import Callable, Sequence
from typing import Any, Final

import grpc

from gpustack.adapters.control import control_pb2 as pb
from gpustack.adapters.control.messages import (
    CardChange,
    CardStatus,
    Control,
    ControlRefusal,
    ControlUnavailable,
)
from gpustack.adapters.control.server import Service
from gpustack.wire.one_line import one_line

_NAME: Final = "gpustack.v1.Control"
_SECONDS: Final = 10.0  # of a call; the agent answers from memory, and writes one small file
_LONGEST_REFUSAL: Final = 4000  # characters; gRPC passes it on as a header


def control_service(control: Control) -> Service:
    """Return the service."""

    def listed(_: pb.ListCardsRequest) -> pb.ListCardsResponse:
        return pb.ListCardsResponse(cards=[_encode(each) for each in control.cards()])

    def quarantined(request: pb.QuarantineCardRequest) -> pb.QuarantineCardResponse:
        card = control.quarantine(request.card, request.reason)
        return pb.QuarantineCardResponse(card=_encode(card))

    def released(request: pb.ReleaseCardRequest) -> pb.ReleaseCardResponse:
        return pb.ReleaseCardResponse(card=_encode(control.release(request.card, request.reason)))

    def reloaded(_: pb.ReloadRequest) -> pb.ReloadResponse:
        return pb.ReloadResponse(changed=control.reload())

    methods = {
        "ListCards": _method(listed, pb.ListCardsRequest),
        "QuarantineCard": _method(quarantined, pb.QuarantineCardRequest),
        "ReleaseCard": _method(released, pb.ReleaseCardRequest),
        "Reload": _method(reloaded, pb.ReloadRequest),
    }
    return Service(name=_NAME, methods=methods)


def _method(answer: Callable[[Any], Any], request: type[Any]) -> "grpc.RpcMethodHandler[Any, Any]":
    def call(message: Any, context: grpc.ServicerContext) -> Any:
        try:
            return answer(message)
        except ControlRefusal as refusal:
            text = one_line(str(refusal), _LONGEST_REFUSAL)
            context.abort(grpc.StatusCode.FAILED_PRECONDITION, text)

    return grpc.unary_unary_rpc_method_handler(
        call,
        request_deserializer=request.FromString,
        response_serializer=lambda response: bytes(response.SerializeToString()),
    )


class ControlClient:
    """Calls the agent of this host.

    Args:
        path: its socket.
    """

    def __init__(self, path: pathlib.Path) -> None:
        self._path = path

    def cards(self) -> tuple[CardStatus, ...]:
        """Return the host's cards, ascending by minor.

        Raises:
            ControlUnavailable: the agent doesn't answer, or the caller isn't root.
        """
        answer = self._call("ListCards", pb.ListCardsRequest(), pb.ListCardsResponse)
        return tuple(_decode(card) for card in answer.cards)

    def quarantine(self, card: str, reason: str) -> CardStatus:
        """Keep a card out of use.

        Raises:
            ControlRefusal: there is no such card.
            ControlUnavailable: as `cards`.
        """
        request = pb.QuarantineCardRequest(card=card, reason=reason)
        return _decode(self._call("QuarantineCard", request, pb.QuarantineCardResponse).card)

    def release(self, card: str, reason: str) -> CardStatus:
        """Put a card to use again.

        Raises:
            ControlRefusal: there is no such card.
            ControlUnavailable: as `cards`.
        """
        request = pb.ReleaseCardRequest(card=card, reason=reason)
        return _decode(self._call("ReleaseCard", request, pb.ReleaseCardResponse).card)

    def reload(self) -> Sequence[str]:
        """Let the agent take over its configuration file; return the keys that have changed.

        Raises:
            ControlRefusal: it can't, and goes on with the old one.
            ControlUnavailable: as `cards`.
        """
        return tuple(self._call("Reload", pb.ReloadRequest(), pb.ReloadResponse).changed)

    def _call(self, method: str, request: Any, response: type[Any]) -> Any:
        with grpc.insecure_channel(f"unix:{self._path}") as channel:
            call: Callable[..., Any] = channel.unary_unary(
                f"/{_NAME}/{method}",
                request_serializer=lambda message: bytes(message.SerializeToString()),
                response_deserializer=response.FromString,
            )
            try:
                return call(request, timeout=_SECONDS)
            except grpc.RpcError as error:
                if error.code() is grpc.StatusCode.FAILED_PRECONDITION:
                    raise ControlRefusal(str(error.details())) from error
                raise ControlUnavailable(
                    f"{self._path}: {error.details()}: does gpustack-agent run on this host, and"
                    " are you root (sudo)?"
                ) from error


def _encode(card: CardStatus) -> pb.Card:
    return pb.Card(
        minor=card.minor,
        uuid=card.uuid,
        model=card.model,
        state=card.state,
        reason=card.reason,
        text=card.text,
        since=card.since,
        history=[
            pb.CardChange(time=each.time, state=each.state, reason=each.reason, text=each.text)
            for each in card.history
        ],
    )


def _decode(card: pb.Card) -> CardStatus:
    return CardStatus(
        minor=card.minor,
        uuid=card.uuid,
        model=card.model,
        state=card.state,
        reason=card.reason,
        text=card.text,
        since=card.since,
        history=tuple(
            CardChange(time=each.time, state=each.state, reason=each.reason, text=each.text)
            for each in card.history
        ),
    )
