"""Artiway: a serverless platform that sells AI image work, fairly and to the point."""

__version__ = "0.1.0"
