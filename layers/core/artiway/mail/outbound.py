"""Sends mail by Amazon SES."""

from __future__ import annotations

from typing import Any

from artiway.mail.model import AddressRefused
from artiway.platform import aws


class SesMailer:
    def __init__(self, sender: str) -> None:
        """`sender` is an address of a verified identity, maybe with a name: Artiway <no-reply@shop.example>."""
        self._sender = sender

    def send(self, to: str, subject: str, text: str) -> None:
        from botocore.exceptions import ClientError

        ses: Any = aws.client("sesv2")
        body = {"Text": {"Data": text, "Charset": "UTF-8"}}
        content = {"Simple": {"Subject": {"Data": subject, "Charset": "UTF-8"}, "Body": body}}
        try:
            ses.send_email(FromEmailAddress=self._sender, Destination={"ToAddresses": [to]}, Content=content)
        except ClientError as error:
            if error.response["Error"]["Code"] == "BadRequestException":
                raise AddressRefused from error
            raise


def mailer_of(sender: str) -> SesMailer | None:
    """None for a deployment without a sender, which sends no mail."""
    return SesMailer(sender) if sender else None
