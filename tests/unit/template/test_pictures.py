"""Pictures through CloudFront: who may read the bucket, what is cached, which keys sign."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from artiway.delivery.uploads.repository import CACHE_CONTROL
from artiway.platform.picture_keys import SLOTS
from local import pictures
from tests.unit.template.facts import Template, many
from tests.unit.template.resolve import Resolver

Json = dict[str, Any]
CONDITIONAL = {"PictureKeys", "PicturesFirstPublicKey", "PicturesSecondPublicKey", "PicturesKeyGroup"}


@pytest.fixture(scope="module")
def distribution(template: Template) -> Json:
    (found,) = template.of_type("AWS::CloudFront::Distribution").values()
    config: Json = Resolver(template.body)(found["DistributionConfig"])
    return config


@pytest.fixture(scope="module")
def behaviour(distribution: Json) -> Json:
    (found,) = (one for one in distribution["CacheBehaviors"] if one["TargetOriginId"] == "pictures")
    return dict(found)


def bucket_policy(template: Template, **parameters: str) -> list[Json]:
    found = [
        one["PolicyDocument"]["Statement"]
        for one in template.of_type("AWS::S3::BucketPolicy").values()
        if one["Bucket"] == {"Ref": "DataArtefactBucket"}
    ]
    assert len(found) == 1, "a bucket has one policy"
    statements: list[Json] = Resolver(template.body, **parameters)(found[0])
    return statements


class TestBucket:
    def test_distribution_alone_may_read_results(self, template: Template) -> None:
        (allowed,) = (one for one in bucket_policy(template) if one["Effect"] == "Allow")
        assert allowed["Principal"] == {"Service": "cloudfront.amazonaws.com"}
        assert many(allowed["Action"]) == ["s3:GetObject"]
        assert allowed["Resource"] == "arn:Partition:s3:::DataArtefactBucket/outputs/*"
        arn = "arn:Partition:cloudfront::AccountId:distribution/EdgeDistribution"
        assert allowed["Condition"] == {"StringEquals": {"aws:SourceArn": arn}}

    def test_nobody_may_without_a_distribution(self, template: Template) -> None:
        assert [one["Sid"] for one in bucket_policy(template, HasDistribution="false")] == ["TlsOnly"]

    def test_bucket_is_not_public(self, template: Template) -> None:
        for name, bucket in template.of_type("AWS::S3::Bucket").items():
            assert set(bucket["PublicAccessBlockConfiguration"].values()) == {True}, name

    def test_cloudfront_signs_every_request_to_s3(self, template: Template, distribution: Json) -> None:
        (origin,) = (one for one in distribution["Origins"] if one["Id"] == "pictures")
        assert origin["DomainName"] == "DataArtefactBucket.s3.us-east-1.URLSuffix"
        assert origin["OriginAccessControlId"] == "EdgePicturesAccess.Id"
        control = template.resources["EdgePicturesAccess"]["Properties"]["OriginAccessControlConfig"]
        assert (control["SigningBehavior"], control["SigningProtocol"]) == ("always", "sigv4")

    def test_key_lets_distributions_decrypt_only(self, template: Template) -> None:
        statements = Resolver(template.body)(template.resources["DataKey"]["Properties"]["KeyPolicy"]["Statement"])
        (found,) = (one for one in statements if one["Principal"].get("Service") == "cloudfront.amazonaws.com")
        assert many(found["Action"]) == ["kms:Decrypt"]
        arn = "arn:Partition:cloudfront::AccountId:distribution/*"
        assert found["Condition"] == {"ArnLike": {"aws:SourceArn": arn}}

    @pytest.mark.parametrize(("has_distribution", "is_allowed"), [("true", False), ("false", True)])
    def test_tasks_reads_results_only_without_cloudfront(
        self, template: Template, has_distribution: str, is_allowed: bool
    ) -> None:
        resolver = Resolver(template.body, HasDistribution=has_distribution)
        granted = [
            place
            for one in template.granted("TasksFunction")
            if "s3:GetObject" in many(one["Action"])
            for place in many(resolver(one["Resource"]))
        ]
        assert any("/outputs/" in place for place in granted) is is_allowed


class TestBehaviour:
    def test_addresses_must_be_signed(self, behaviour: Json, distribution: Json) -> None:
        assert behaviour["TrustedKeyGroups"] == ["PicturesKeyGroup"]
        assert behaviour["ViewerProtocolPolicy"] == "https-only"
        assert behaviour["AllowedMethods"] == ["GET", "HEAD"]
        others = [distribution["DefaultCacheBehavior"], *distribution["CacheBehaviors"]]
        assert [one["TargetOriginId"] for one in others].count("pictures") == 1

    def test_edge_serves_the_same_paths(self, behaviour: Json) -> None:
        assert behaviour["PathPattern"] == f"{pictures.PREFIX}*"

    def test_cache_ignores_signatures_and_nothing_else(self, template: Template, behaviour: Json) -> None:
        policy = template.resources[behaviour["CachePolicyId"]]["Properties"]["CachePolicyConfig"]
        given = policy["ParametersInCacheKeyAndForwardedToOrigin"]
        assert given["QueryStringsConfig"]["QueryStrings"] == list(pictures.FORWARDED)
        assert given["QueryStringsConfig"]["QueryStringBehavior"] == "whitelist"
        assert given["CookiesConfig"] == {"CookieBehavior": "none"}
        assert given["HeadersConfig"] == {"HeaderBehavior": "none"}
        assert policy["MinTTL"] == policy["MaxTTL"] >= 3_600
        (kept,) = re.findall(r"max-age=(\d+)", CACHE_CONTROL)
        assert int(kept) > 2 * policy["MaxTTL"], "a browser subtracts the age that CloudFront sends"
        assert "OriginRequestPolicyId" not in behaviour

    def test_edge_adds_headers_of_the_policy(self, template: Template, behaviour: Json) -> None:
        policy = template.resources[behaviour["ResponseHeadersPolicyId"]]["Properties"]["ResponseHeadersPolicyConfig"]
        security = policy["SecurityHeadersConfig"]
        assert all(one["Override"] for one in security.values())
        assert {
            "X-Content-Type-Options": "nosniff",
            "Content-Security-Policy": security["ContentSecurityPolicy"]["ContentSecurityPolicy"],
            "X-Frame-Options": security["FrameOptions"]["FrameOption"],
            "Referrer-Policy": security["ReferrerPolicy"]["ReferrerPolicy"],
        } | {one["Header"]: one["Value"] for one in policy["CustomHeadersConfig"]["Items"]} == pictures.HEADERS
        assert "sandbox" in pictures.HEADERS["Content-Security-Policy"]


class TestKeys:
    """The parameters of each step of docs/deploy.md, and what a stack does with them."""

    STEPS = (
        ({}, ["first", "second"], "first-1"),
        ({"PictureKeySlot": "second"}, ["first", "second"], "second-1"),
        ({"PictureKeySlot": "second", "FirstPictureKey": "none"}, ["second"], "second-1"),
        ({"PictureKeySlot": "second", "FirstPictureKey": "2"}, ["first", "second"], "second-1"),
        ({"PictureKeySlot": "first", "FirstPictureKey": "2"}, ["first", "second"], "first-2"),
        ({"FirstPictureKey": "2", "SecondPictureKey": "none"}, ["first"], "first-2"),
    )

    @pytest.mark.parametrize(("parameters", "accepted", "signing"), STEPS)
    def test_step_accepts_and_signs(
        self, template: Template, parameters: dict[str, str], accepted: list[str], signing: str
    ) -> None:
        resolver = Resolver(template.body, **parameters)
        assert resolver.refused() == []
        group = resolver(template.resources["PicturesKeyGroup"]["Properties"]["KeyGroupConfig"]["Items"])
        assert group == [f"Pictures{slot.title()}PublicKey" for slot in accepted]
        for slot in SLOTS:
            key = template.resources[f"Pictures{slot.title()}PublicKey"]
            assert resolver.is_true(key["Condition"]) is (slot in accepted)
        variables = resolver(template.variables_of("TasksFunction"))
        assert variables["ARTIWAY_PICTURE_KEY"] == signing
        assert variables["ARTIWAY_PICTURE_KEY_ID"] == f"Pictures{signing.partition('-')[0].title()}PublicKey"

    @pytest.mark.parametrize(
        ("parameters", "rule"),
        [
            ({"FirstPictureKey": "none"}, "FirstPictureKeySigns"),
            ({"PictureKeySlot": "second", "SecondPictureKey": "none"}, "SecondPictureKeySigns"),
        ],
    )
    def test_slot_without_key_cannot_sign(self, template: Template, parameters: dict[str, str], rule: str) -> None:
        assert Resolver(template.body, **parameters).refused() == [rule]

    def test_public_key_is_named_by_its_version(self, template: Template) -> None:
        """CloudFront refuses to change a key: another version must be another one."""
        resolver = Resolver(template.body, FirstPictureKey="7")
        config = resolver(template.resources["PicturesFirstPublicKey"]["Properties"]["PublicKeyConfig"])
        assert config["Name"] == config["CallerReference"] == "StackName-first-7"
        assert config["EncodedKey"] == "PictureKeys.First"

    def test_private_keys_have_one_reader_and_one_maker(self, template: Template) -> None:
        found: dict[str, set[str]] = {}
        for name in template.functions:
            for one in template.granted(name):
                if "PictureSecret" in json.dumps(one["Resource"]):
                    found.setdefault(name, set()).update(many(one["Action"]))
        assert found == {
            "TasksFunction": {"secretsmanager:GetSecretValue"},
            "DeployFunction": {"secretsmanager:GetSecretValue", "secretsmanager:PutSecretValue"},
        }

    def test_stack_without_distribution_has_no_keys(self, template: Template) -> None:
        resolver = Resolver(template.body, HasDistribution="false")
        for name in CONDITIONAL:
            assert not resolver.is_true(template.resources[name]["Condition"]), name
        assert resolver(template.variables_of("TasksFunction"))["ARTIWAY_PICTURE_KEY_ID"] == ""

    def test_new_secret_is_filled_by_the_deployment(self, template: Template) -> None:
        assert template.resources["PictureSecret"]["Properties"]["SecretString"] == "{}"
        resolved = Resolver(template.body)(template.resources["PictureKeys"]["Properties"])
        assert (resolved["SecretArn"], resolved["First"], resolved["Second"]) == ("PictureSecret", "1", "1")
