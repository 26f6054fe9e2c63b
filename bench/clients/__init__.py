"""Import time of the Python client and of the command, compared with the libraries that they need."""
