"""Import time of each handler, beside the bare third-party libraries that it needs."""
