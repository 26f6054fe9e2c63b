"""The worker: claims nodes, runs engines on untrusted pictures, reports. It reaches SQS, S3 and `internal` alone."""

VERSION = "1.0.0"
