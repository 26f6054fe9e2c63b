"""The worker claims nodes, runs engines on untrusted pictures and reports. It calls only SQS, S3 and `internal`."""

VERSION = "1.0.0"
