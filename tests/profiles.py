"""How many examples hypothesis tries: `ci` always, `nightly` by --hypothesis-profile=nightly."""

from hypothesis import settings


def register() -> None:
    """Make the profiles known and choose `ci`; the command line may choose otherwise."""
    # A loaded machine is slow now and then; that is no failure of a pure function.
    settings.register_profile("ci", max_examples=200, deadline=None)
    settings.register_profile("nightly", max_examples=20_000, deadline=None)
    settings.load_profile("ci")
