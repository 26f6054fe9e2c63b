"""Import time of each handler, compared with the third-party libraries that it needs."""
