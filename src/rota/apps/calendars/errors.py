"""What goes wrong with calendars. No message names a password, nor the path of a feed, which is often as good as one.

CalendarError
├── Unavailable    nobody answers, or with an error of their own: another attempt may help
├── Busy           we ask too often, or a quota is used up: wait, and it does not count
├── SignInFailed   the name or password is not taken
├── NotACalendar   there is no calendar, or one that cannot be read or written
├── TooManyGone    more events have vanished at once than anybody deletes by hand
├── Unsettled      some events could not be brought in order this time
└── Trouble with one event, which does not stop the others:
    ├── Broken     its text is not iCalendar
    ├── Refused    the other side does not take it
    └── Changed    somebody else was faster
"""

from __future__ import annotations

from rota.errors import RunError


class CalendarError(RunError):
    """A synchronisation cannot go on."""

    code = "calendar"


class Unavailable(CalendarError):
    """Nobody answers, or with an error of their own."""

    code = "calendar_unavailable"


class Busy(CalendarError):
    """We ask too often; `retry_after_s` is when we may come back, if it was said."""

    code = "calendar_busy"

    def __init__(self, message: str, retry_after_s: float | None = None) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s


class SignInFailed(CalendarError):
    """The name or password is not taken."""

    code = "calendar_sign_in"


class NotACalendar(CalendarError):
    """There is no calendar, or one that cannot be read or written."""

    code = "not_a_calendar"


class TooManyGone(CalendarError):
    """More events have vanished at once than anybody deletes by hand."""

    code = "too_many_gone"


class Unsettled(CalendarError):
    """Some events could not be brought in order this time."""

    code = "unsettled"


class Broken(CalendarError):
    """A text is not iCalendar, or none that makes sense."""

    code = "broken_event"


class Refused(CalendarError):
    """The other side does not take an event."""

    code = "event_refused"


class Changed(CalendarError):
    """Somebody else was faster: it is no longer as we have seen it; `href` is what is there instead, if that is known."""

    code = "event_changed"

    def __init__(self, message: str, href: str | None = None) -> None:
        super().__init__(message)
        self.href = href
