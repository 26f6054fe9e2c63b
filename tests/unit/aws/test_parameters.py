"""A parameter is read once, and again after a while."""

from __future__ import annotations

import pytest
from botocore.exceptions import ClientError

from artiway.platform import aws
from artiway.platform.parameters import KEPT_S, Parameter


@pytest.fixture
def systems_manager():
    client = aws.client("ssm")
    client.put_parameter(Name="queues", Value="first", Type="String")
    return client


def test_changed_parameter_is_read_after_while(systems_manager):
    at = [0.0]
    parameter = Parameter("queues", now=lambda: at[0])
    assert parameter.text() == "first"
    systems_manager.put_parameter(Name="queues", Value="second", Type="String", Overwrite=True)
    at[0] = KEPT_S - 1
    assert parameter.text() == "first"
    at[0] = KEPT_S
    assert parameter.text() == "second"


def test_parameter_that_is_missing_raises_each_time(systems_manager):
    parameter = Parameter("others")
    for _ in range(2):
        with pytest.raises(ClientError, match="ParameterNotFound"):
            parameter.text()
