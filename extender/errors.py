"""What the scheduler is told when there is no answer to give about nodes."""

from gpustack.model.codes import DecisionFailure
from gpustack.model.errors import GpustackError
from gpustack.model.refusal import Reason


class CannotDecide(GpustackError):
    """No decision now; the scheduler shows the text and asks again later.

    Attributes:
        code: a short stable word for metrics.
    """

    def __init__(self, code: DecisionFailure | Reason, text: str) -> None:
        super().__init__(text)
        self.code = code


class Gone(CannotDecide):
    """The very pod that is meant is there no longer."""

    def __init__(self, full_name: str, uid: str) -> None:
        super().__init__("Gone", f"pod {full_name} with UID {uid} is gone")
