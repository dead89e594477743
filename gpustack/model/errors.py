"""The root of every error that gpustack raises on purpose."""


class GpustackError(Exception):
    """What a caller may expect and translate; anything else is a defect."""
