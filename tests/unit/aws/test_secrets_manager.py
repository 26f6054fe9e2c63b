"""A secret is read once, and again after a while."""

from __future__ import annotations

import pytest
from botocore.exceptions import ClientError

from artiway.platform import aws
from artiway.platform.secrets import KEPT_S, Secret


@pytest.fixture
def manager():
    return aws.client("secretsmanager")


@pytest.fixture
def arn(manager):
    return manager.create_secret(Name="pepper", SecretString="first")["ARN"]


def test_rotated_secret_is_read_after_while(manager, arn):
    at = [0.0]
    secret = Secret(arn, now=lambda: at[0])
    assert secret.text() == "first"
    manager.put_secret_value(SecretId=arn, SecretString="second")
    at[0] = KEPT_S - 1
    assert secret.text() == "first"
    at[0] = KEPT_S
    assert secret.text() == "second"


def test_secret_that_is_not_there_raises_each_time(manager, arn):
    secret = Secret(arn + "-other")
    for _ in range(2):
        with pytest.raises(ClientError, match="ResourceNotFoundException"):
            secret.text()


def test_secret_that_is_being_deleted_raises(manager, arn):
    manager.delete_secret(SecretId=arn)
    with pytest.raises(ClientError, match="InvalidRequestException"):
        Secret(arn).text()
