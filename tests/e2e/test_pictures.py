"""Pictures as people get them: through the edge, by signed addresses, on the running stack."""

from __future__ import annotations

import json
import time
from typing import Any
from uuid import uuid4

import aiohttp
from yarl import URL

from artiway.platform import picture_keys
from artiway.platform.signed_urls import UrlSigner
from local import emulator, photos
from local.pictures import key_id
from local.shop import Person
from local.stack import Stack
from tests.e2e.studio import POINTS, Studio, ended

PHOTO = photos.shirt(photos.BLUE, side=240)


async def read(person: Person, url: str, method: str = "GET", **headers: str) -> tuple[aiohttp.ClientResponse, bytes]:
    """Without the client's own changes of an address."""
    async with person.platform.session.request(method, URL(url, encoded=True), headers=headers) as answer:
        return answer, await answer.read()


async def status(person: Person, url: str) -> int:
    return (await read(person, url))[0].status


async def result(person: Person, **flow: Any) -> dict[str, Any]:
    product = await person.upload(PHOTO)
    if flow:
        node = {"name": "cut", "type": "cutout", "inputs": {"product": product}}
        task = await person.call("POST", "/flows", {**flow, "nodes": [node]}, key=uuid4().hex)
    else:
        task = await person.submit("cutout", {"product": product})
    view = await ended(person, task["taskId"])
    assert view["status"] == "COMPLETED", view
    (found,) = view["results"]
    return {**found, "taskId": task["taskId"]}


def signer(stack: Stack, name: str) -> UrlSigner:
    """A signer with a key of the running stack."""
    arn = stack.outputs["PictureSecretArn"]
    secret = emulator.client("secretsmanager", stack.facts["awsUrl"]).get_secret_value(SecretId=arn)["SecretString"]
    return UrlSigner(key_id(name), lambda: str(json.loads(secret)[name]))


def unsigned(url: str) -> str:
    return url.partition("&Expires=")[0]


def test_picture_is_shown_and_can_be_kept(studio: Studio) -> None:
    async def scenario(person: Person) -> None:
        made = await result(person)
        answer, body = await read(person, made["url"])
        assert (answer.status, answer.content_type, body[:4]) == (200, "image/png", b"\x89PNG")
        assert made["url"].startswith(f"{studio.stack.url}/outputs/")
        assert answer.headers["Cache-Control"] == "private, max-age=86400, immutable"
        assert answer.headers["X-Content-Type-Options"] == "nosniff"
        assert "sandbox" in answer.headers["Content-Security-Policy"]
        assert "Content-Disposition" not in answer.headers
        again = (await person.task(made["taskId"]))["results"][0]
        assert again["expiresAt"] >= made["expiresAt"]
        assert (again["url"] == made["url"]) is (again["expiresAt"] == made["expiresAt"])

        etag = answer.headers["ETag"]
        unchanged, nothing = await read(person, made["url"], **{"If-None-Match": etag})
        assert (unchanged.status, nothing, unchanged.headers["ETag"]) == (304, b"", etag)
        part, some = await read(person, made["url"], Range="bytes=4-99")
        assert (part.status, some) == (206, body[4:100])
        assert part.headers["Content-Range"] == f"bytes 4-99/{len(body)}"
        beyond, _ = await read(person, made["url"], Range=f"bytes={len(body)}-")
        assert beyond.status == 416
        head, nothing = await read(person, made["url"], "HEAD")
        assert (head.status, nothing, head.headers["Content-Length"]) == (200, b"", str(len(body)))
        assert (await read(person, made["url"], "PUT"))[0].status == 403

    studio.run(scenario)


def test_download_has_a_good_name(studio: Studio) -> None:
    async def scenario(person: Person) -> None:
        made = await result(person)
        answer, body = await read(person, made["downloadUrl"])
        assert (answer.status, body[:4]) == (200, b"\x89PNG")
        assert answer.content_disposition is not None
        day = time.strftime("%Y-%m-%d", time.gmtime())
        assert (answer.content_disposition.type, answer.content_disposition.filename) in {
            ("attachment", f"cutout-{day}-1.png"),
            ("attachment", f"cutout-{time.strftime('%Y-%m-%d', time.gmtime(time.time() - 600))}-1.png"),
        }
        named = await result(person, name='夏季 "新款"; filename=x.exe/..\\')
        answer, _ = await read(person, named["downloadUrl"])
        assert answer.content_disposition is not None
        assert str(answer.content_disposition.filename).startswith("夏季-新款-filename=x.exe")
        assert str(answer.content_disposition.filename).endswith("-1.png")

    studio.run(scenario)


def test_other_addresses_are_refused_alike(studio: Studio) -> None:
    """Changed, expired, unsigned and foreign addresses, and an object that does not exist: one answer for all."""

    async def scenario(person: Person) -> None:
        made = await result(person)
        administrator = await person.platform.administrator()
        stranger = await administrator.open_shop("stranger", points=POINTS, tier="vip")
        foreign = await result(stranger)
        url, plain = made["url"], unsigned(made["url"])
        signing = signer(studio.stack, "first-1")
        other = UrlSigner(key_id("first-1"), picture_keys.new_key)
        now = int(time.time())
        signature = url.removeprefix(plain)
        missing = plain.replace("cutout.png", "missing.png")
        bodies = set()
        for refused in (
            plain,
            url.replace("&Expires=", "&Expires=1"),
            url.replace("image/png", "text/html"),
            url.replace("cutout.png", "%63utout.png"),
            unsigned(foreign["url"]) + signature,
            f"{made['downloadUrl']}&response-content-type=text/html",
            url.replace("127.0.0.1", "localhost"),
            signing.sign(plain, now - 1),
            other.sign(plain, now + 600),
            signing.sign(missing, now + 600),
            missing + signature,
        ):
            answer, body = await read(person, refused)
            assert answer.status == 403, refused
            bodies.add(body)
        assert len(bodies) == 1
        assert made["taskId"].encode() not in next(iter(bodies))
        assert await status(person, foreign["url"]) == 200  # who has the address has the picture, until it expires
        bucket = f"{studio.stack.facts['awsUrl']}/{studio.stack.outputs['ArtefactBucketName']}"
        assert await status(person, url.replace(studio.stack.url, bucket)) == 403

    studio.run(scenario)


def test_both_keys_are_accepted_at_once(studio: Studio) -> None:
    async def scenario(person: Person) -> None:
        made = await result(person)
        plain, until = unsigned(made["url"]), int(time.time()) + 600
        for name in ("first-1", "second-1"):
            assert await status(person, signer(studio.stack, name).sign(plain, until)) == 200
        assert await status(person, made["url"]) == 200
        assert f"&Key-Pair-Id={key_id('first-1')}&" in made["url"]

    studio.run(scenario)


def test_repeated_deployment_keeps_the_keys(studio: Studio) -> None:
    functions = emulator.client("lambda", studio.stack.facts["awsUrl"])
    event = {"action": "picture-keys", "SecretArn": studio.stack.outputs["PictureSecretArn"]}
    answers = [
        json.load(functions.invoke(FunctionName="DeployFunction", Payload=json.dumps(event | versions))["Payload"])
        for versions in ({"First": "1", "Second": "1"}, {"First": "none", "Second": "1"}, {"First": "1", "Second": "1"})
    ]
    assert answers[0] == answers[2]
    assert answers[1] == {"First": "", "Second": answers[0]["Second"]}
    assert answers[0]["First"].startswith("-----BEGIN PUBLIC KEY-----")
