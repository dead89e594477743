from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class CardChange(_message.Message):
    __slots__ = ("time", "state", "reason", "text")
    TIME_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    time: str
    state: str
    reason: str
    text: str
    def __init__(self, time: _Optional[str] = ..., state: _Optional[str] = ..., reason: _Optional[str] = ..., text: _Optional[str] = ...) -> None: ...

class Card(_message.Message):
    __slots__ = ("minor", "uuid", "model", "state", "reason", "text", "since", "history")
    MINOR_FIELD_NUMBER: _ClassVar[int]
    UUID_FIELD_NUMBER: _ClassVar[int]
    MODEL_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    SINCE_FIELD_NUMBER: _ClassVar[int]
    HISTORY_FIELD_NUMBER: _ClassVar[int]
    minor: int
    uuid: str
    model: str
    state: str
    reason: str
    text: str
    since: str
    history: _containers.RepeatedCompositeFieldContainer[CardChange]
    def __init__(self, minor: _Optional[int] = ..., uuid: _Optional[str] = ..., model: _Optional[str] = ..., state: _Optional[str] = ..., reason: _Optional[str] = ..., text: _Optional[str] = ..., since: _Optional[str] = ..., history: _Optional[_Iterable[_Union[CardChange, _Mapping]]] = ...) -> None: ...

class ListCardsRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ListCardsResponse(_message.Message):
    __slots__ = ("cards",)
    CARDS_FIELD_NUMBER: _ClassVar[int]
    cards: _containers.RepeatedCompositeFieldContainer[Card]
    def __init__(self, cards: _Optional[_Iterable[_Union[Card, _Mapping]]] = ...) -> None: ...

class QuarantineCardRequest(_message.Message):
    __slots__ = ("card", "reason")
    CARD_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    card: str
    reason: str
    def __init__(self, card: _Optional[str] = ..., reason: _Optional[str] = ...) -> None: ...

class QuarantineCardResponse(_message.Message):
    __slots__ = ("card",)
    CARD_FIELD_NUMBER: _ClassVar[int]
    card: Card
    def __init__(self, card: _Optional[_Union[Card, _Mapping]] = ...) -> None: ...

class ReleaseCardRequest(_message.Message):
    __slots__ = ("card", "reason")
    CARD_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    card: str
    reason: str
    def __init__(self, card: _Optional[str] = ..., reason: _Optional[str] = ...) -> None: ...

class ReleaseCardResponse(_message.Message):
    __slots__ = ("card",)
    CARD_FIELD_NUMBER: _ClassVar[int]
    card: Card
    def __init__(self, card: _Optional[_Union[Card, _Mapping]] = ...) -> None: ...

class ReloadRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ReloadResponse(_message.Message):
    __slots__ = ("changed",)
    CHANGED_FIELD_NUMBER: _ClassVar[int]
    changed: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, changed: _Optional[_Iterable[str]] = ...) -> None: ...
