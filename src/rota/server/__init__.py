"""The HTTP server: the admin API, sign-in, HTTP jobs, the live stream."""
