"""The noisy neighbour: what four ways to queue do to three tenants."""
