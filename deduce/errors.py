"""Errors that a user can fix: one sentence says what is wrong, where, and what to do."""


class InputError(ValueError):
    """A bad value, file or setting. Its message stands alone, without a traceback."""
