"""Alerts about payments on an SNS topic."""

from __future__ import annotations

import json

import pytest
from botocore.exceptions import ClientError

from artiway.payments.alerts import SnsTopic
from artiway.platform import aws


@pytest.fixture
def topic_arn():
    return aws.client("sns").create_topic(Name="alarms")["TopicArn"]


def test_subscriber_gets_subject_and_message(topic_arn):
    sqs = aws.client("sqs")
    url = sqs.create_queue(QueueName="mail")["QueueUrl"]
    queue_arn = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["QueueArn"])["Attributes"]["QueueArn"]
    aws.client("sns").subscribe(TopicArn=topic_arn, Protocol="sqs", Endpoint=queue_arn)
    SnsTopic(topic_arn).publish("Artiway: BILL_LATE", '{"kind":"BILL_LATE"}')
    (message,) = sqs.receive_message(QueueUrl=url)["Messages"]
    published = json.loads(message["Body"])
    assert (published["Subject"], published["Message"]) == ("Artiway: BILL_LATE", '{"kind":"BILL_LATE"}')


def test_topic_that_is_not_there_raises(topic_arn):
    with pytest.raises(ClientError, match="NotFound"):
        SnsTopic(topic_arn + "-other").publish("Artiway: BILL_LATE", "{}")
