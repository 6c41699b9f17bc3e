"""Calls that go out: which addresses may be reached, how long and how much, and how they are signed."""
