"""What a user can mend: one sentence that says what was wrong, where, and what to do."""


class InputError(ValueError):
    """A bad value, file or setting. Its message stands alone, without a traceback."""
