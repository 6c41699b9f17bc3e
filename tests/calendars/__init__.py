"""Calendar sync: its tests, and the long one that kills workers (`python -m tests.calendars.kills`)."""
