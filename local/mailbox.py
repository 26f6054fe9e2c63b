"""The mails that the emulator's SES accepted, as a page and as JSON: /_local/mailbox. They go nowhere else."""

from __future__ import annotations

import re
from html import escape
from typing import Any

import aiohttp
from aiohttp import web

from local import emulator

PATH = "/_local/mailbox"
DOMAIN = "artiway.example"
SENDER = f"Artiway <no-reply@{DOMAIN}>"
PAGE = """<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Mailbox</title>
<style>
  body {{ font: 15px/1.5 system-ui, sans-serif; margin: 0 auto; max-width: 50rem; padding: 1rem; color: #1b1f1d; }}
  article {{ border-bottom: 1px solid #ddd; padding: .5rem 0; }} pre {{ white-space: pre-wrap; font: inherit; }}
  h1 {{ font-size: 1.3rem; }} h2 {{ font-size: 1rem; margin: 0; }} .muted {{ color: #666; margin: 0; }}
</style>
<h1>Mailbox of this machine</h1>
<p class="muted">Mails that the platform sent, newest first. They leave with the stack.</p>
{mails}
"""
LINK = re.compile(r"https?://[^\s<]+")


def verify_sender(aws_url: str) -> None:
    """Verify the identity of the sender, as an operator does on AWS."""
    emulator.client("sesv2", aws_url).create_email_identity(EmailIdentity=DOMAIN)


async def mails(session: aiohttp.ClientSession, aws_url: str) -> list[dict[str, Any]]:
    """Newest first."""
    async with session.get(f"{aws_url}/_ministack/ses/messages") as answer:
        found = await answer.json(content_type=None)
    every = [mail for of_account in found["messages"].values() for mail in of_account]
    return [
        {
            "id": mail["MessageId"],
            "to": mail["To"],
            "subject": mail["Subject"],
            "text": mail["BodyText"],
            "at": mail["Timestamp"],
        }
        for mail in reversed(every)
    ]


async def answer(request: web.Request, session: aiohttp.ClientSession, aws_url: str) -> web.Response:
    found = await mails(session, aws_url)
    headers = {"Cache-Control": "no-store"}
    if request.path.endswith(".json"):
        return web.json_response({"items": found}, headers=headers)
    listed = "\n".join(_article(mail) for mail in found) or "<p>No mail yet.</p>"
    return web.Response(text=PAGE.format(mails=listed), content_type="text/html", headers=headers)


def _article(mail: dict[str, Any]) -> str:
    text = LINK.sub(lambda link: f'<a href="{link[0]}">{link[0]}</a>', escape(str(mail["text"])))
    to = escape(", ".join(mail["to"]))
    return (
        f'<article><h2>{escape(str(mail["subject"]))}</h2><p class="muted">{to}, {escape(str(mail["at"]))}</p>'
        f"<pre>{text}</pre></article>"
    )
