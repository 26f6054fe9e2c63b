"""The way in, throttles, reserved concurrency and token keys, for the parameters of a stack."""

from __future__ import annotations

import json
import tomllib
from typing import Any

import pytest

from artiway.platform.origin import SLOTS
from artiway.platform.settings import Settings
from tests.unit.template.facts import ROOT, Template, many
from tests.unit.template.resolve import NO_VALUE, Resolver

KEY = "arn:aws:kms:us-east-1:123456789012:key/"
OLD, NEW, NEWEST = "TokenKey", f"{KEY}new", f"{KEY}newest"
QUOTAS = ["1000", "5000"]
# AWS refuses a reservation that leaves fewer than this to all other functions.
UNRESERVED = 100
RESERVED = {
    *("EventsFunction", "OpenaiFunction", "AuthorizerFunction", "WechatFunction", "OrdersFunction", "InternalFunction")
}
# Functions of the HTTP API that others may call directly.
OPEN = {"WechatFunction"}


def variables(template: Template, function: str, **parameters: str) -> dict[str, Any]:
    found: dict[str, Any] = Resolver(template.body, **parameters)(template.variables_of(function))
    return found


def routes(template: Template) -> dict[str, str]:
    """Route key -> function."""
    (http,) = (one for one in template.of_type("AWS::ApiGatewayV2::Api").values() if "Body" in one)
    (streams,) = template.of_type("AWS::ApiGateway::RestApi").values()
    return {
        f"{method.upper()} {path}": name
        for api in (http, streams)
        for path, methods in api["Body"]["paths"].items()
        for method, operation in methods.items()
        for name in template.functions
        if name in json.dumps(operation["x-amazon-apigateway-integration"]["uri"])
    }


class TestOrigin:
    def test_every_way_in_is_checked(self, template: Template) -> None:
        functions = set(routes(template).values()) - OPEN | {"WebsocketFunction"}
        assert len(functions) > 10
        for function in functions:
            found = variables(template, function)
            assert found["ARTIWAY_ORIGIN_HASHES"] == "OriginHashes.Hashes", function

    def test_wechat_alone_is_open(self, template: Template) -> None:
        assert {key for key, name in routes(template).items() if name in OPEN} == {
            "POST /api/v1/wechat/pay/notify",
            "POST /api/v1/wechat/refund/notify",
        }

    @pytest.mark.parametrize("slot", SLOTS)
    def test_cloudfront_sends_one_value_to_all_apis(self, template: Template, slot: str) -> None:
        (distribution,) = template.of_type("AWS::CloudFront::Distribution").values()
        origins = Resolver(template.body, OriginSecretSlot=slot)(distribution["DistributionConfig"]["Origins"])
        headers = {origin["Id"]: origin.get("OriginCustomHeaders") for origin in origins}
        value = f"{{{{resolve:secretsmanager:OriginSecret:SecretString:{slot}}}}}"
        expected = [{"HeaderName": "x-origin-verify", "HeaderValue": value}]
        apis = dict.fromkeys(("api", "streams", "websocket"), expected)
        assert headers == {"console": None, "pictures": None, **apis}

    def test_new_secret_has_a_value_to_send(self, template: Template) -> None:
        made = template.resources["OriginSecret"]["Properties"]["GenerateSecretString"]
        assert (made["GenerateStringKey"], made["SecretStringTemplate"]) == (SLOTS[0], "{}")
        assert template.body["Parameters"]["OriginSecretSlot"]["Default"] == SLOTS[0]
        assert made["PasswordLength"] >= 32

    def test_new_version_reads_the_secret_again(self, template: Template) -> None:
        properties = template.resources["OriginHashes"]["Properties"]
        first, second = (Resolver(template.body, OriginSecretVersion=text)(properties) for text in ("1", "2"))
        assert first != second

    def test_no_function_has_the_value_itself(self, template: Template) -> None:
        readers = {
            name
            for name in template.functions
            for one in template.granted(name)
            if "secretsmanager:GetSecretValue" in many(one["Action"]) and "OriginSecret" in json.dumps(one["Resource"])
        }
        assert readers == {"DeployFunction"}
        assert not [name for name in template.functions if "OriginSecret" in json.dumps(template.variables_of(name))]

    def test_stack_without_distribution_says_so(self, template: Template) -> None:
        resolver = Resolver(template.body, HasDistribution="false")
        assert variables(template, "AuthFunction", HasDistribution="false")["ARTIWAY_ORIGIN_HASHES"] == "off"
        for name, resource in template.resources.items():
            if resource["Type"].startswith(("AWS::CloudFront", "AWS::WAFv2")) or name == "OriginHashes":
                assert not resolver.is_true(resource["Condition"]), name
        outputs = template.body["Outputs"]
        assert resolver(outputs["OriginCheck"]["Value"]).startswith("OFF")
        assert Resolver(template.body)(outputs["OriginCheck"]["Value"]).startswith("on")
        assert "HttpApi.execute-api" in resolver(outputs["ApiUrl"]["Value"])
        for name, output in outputs.items():
            if "Edge" in json.dumps(resolver(output["Value"])):
                assert not resolver.is_true(output["Condition"]), name

    def test_viewer_cannot_name_address_or_host(self, template: Template) -> None:
        (function,) = template.of_type("AWS::CloudFront::Function").values()
        for header in ("true-client-ip", "x-viewer-host"):
            assert f"headers['{header}'] = {{value: " in function["FunctionCode"]

    def test_web_acl_logs_refused_requests_only(self, template: Template) -> None:
        (logging,) = template.of_type("AWS::WAFv2::LoggingConfiguration").values()
        assert logging["LoggingFilter"]["DefaultBehavior"] == "DROP"
        kept = [one for rule in logging["LoggingFilter"]["Filters"] for one in rule["Conditions"]]
        assert {one["ActionCondition"]["Action"] for one in kept} == {"BLOCK", "COUNT"}

    @pytest.mark.parametrize(
        ("parameters", "origin"),
        [
            ({}, "https://*.cloudfront.net"),
            ({"ConsoleOrigin": "https://d1.cloudfront.net"}, "https://d1.cloudfront.net"),
            ({"DomainName": "shop.example", "CertificateArn": "c"}, "https://shop.example"),
        ],
    )
    def test_browsers_upload_from_console_only(
        self, template: Template, parameters: dict[str, str], origin: str
    ) -> None:
        (bucket,) = (one for one in template.of_type("AWS::S3::Bucket").values() if "CorsConfiguration" in one)
        (rule,) = Resolver(template.body, **parameters)(bucket["CorsConfiguration"]["CorsRules"])
        assert rule["AllowedOrigins"] == [origin]

    @pytest.mark.parametrize(
        ("parameters", "url"),
        [
            ({}, ""),
            ({"DomainName": "shop.example"}, "https://shop.example"),
            ({"DomainName": "shop.example", "PublicUrl": "https://pay.example"}, "https://pay.example"),
        ],
    )
    def test_wechat_calls_the_public_address(self, template: Template, parameters: dict[str, str], url: str) -> None:
        """Empty is the host that the payer called: the distribution's."""
        assert variables(template, "OrdersFunction", **parameters)["ARTIWAY_PUBLIC_URL"] == url


class TestThrottles:
    def test_every_auth_route_has_its_own_limit(self, template: Template) -> None:
        auth = {key for key in routes(template) if "/auth/" in key}
        (settings,) = (
            one["RouteSettings"]
            for one in template.of_type("AWS::ApiGatewayV2::Stage").values()
            if "RouteSettings" in one
        )
        assert settings.keys() == auth
        assert len(auth) == 9
        limits = Resolver(template.body)(settings)
        whole = int(Resolver(template.body)({"Ref": "ApiRateLimit"}))
        for key, one in limits.items():
            assert one["DetailedMetricsEnabled"] is True, key
            assert int(one["ThrottlingRateLimit"]) <= (20 if key.endswith(("register", "login", "wechat")) else 100)
            assert int(one["ThrottlingRateLimit"]) <= int(one["ThrottlingBurstLimit"])
        assert sum(int(one["ThrottlingRateLimit"]) for one in limits.values()) * 5 <= whole

    def test_web_acl_counts_logins_by_address(self, template: Template) -> None:
        (acl,) = template.of_type("AWS::WAFv2::WebACL").values()
        (rule,) = (one for one in acl["Rules"] if one["Name"] == "logins-per-address")
        limit = rule["Statement"]["RateBasedStatement"]
        assert limit["Limit"] / limit["EvaluationWindowSec"] <= 1
        assert limit["ScopeDownStatement"]["ByteMatchStatement"]["SearchString"] == "/api/v1/auth/"


class TestConcurrency:
    def reserved(self, template: Template, quota: str) -> dict[str, int]:
        resolver = Resolver(template.body, ConcurrencyQuota=quota)
        found = {name: resolver(one.get("ReservedConcurrentExecutions", 0)) for name, one in template.functions.items()}
        return {name: int(value) for name, value in found.items() if value is not NO_VALUE and value != 0}

    def test_a_new_account_reserves_nothing(self, template: Template) -> None:
        assert template.body["Parameters"]["ConcurrencyQuota"]["Default"] == "none"
        assert self.reserved(template, "none") == {}

    @pytest.mark.parametrize("quota", QUOTAS)
    def test_reservations_leave_enough_to_others(self, template: Template, quota: str) -> None:
        found = self.reserved(template, quota)
        assert found.keys() == RESERVED
        assert sum(found.values()) + UNRESERVED <= int(quota)
        assert min(found.values()) > 0

    def test_every_quota_is_tested(self, template: Template) -> None:
        assert template.body["Parameters"]["ConcurrencyQuota"]["AllowedValues"] == ["none", *QUOTAS]

    @pytest.mark.parametrize("quota", QUOTAS)
    def test_fewer_listeners_wait_than_may_run(self, template: Template, quota: str) -> None:
        """The others answer what is there at once, or refuse: beyond the reservation API Gateway answers 503."""
        limit = int(variables(template, "EventsFunction", ConcurrencyQuota=quota)["ARTIWAY_EVENTS_AT_ONCE"])
        assert Settings(events_at_once=limit).events_per_tenant <= limit
        assert limit <= self.reserved(template, quota)["EventsFunction"] * 0.8

    @pytest.mark.parametrize("quota", QUOTAS)
    def test_fewer_chats_wait_than_may_run(self, template: Template, quota: str) -> None:
        limit = int(variables(template, "OpenaiFunction", ConcurrencyQuota=quota)["ARTIWAY_CHATS_AT_ONCE"])
        assert Settings(chats_at_once=limit).chats_per_tenant <= limit
        assert limit <= self.reserved(template, quota)["OpenaiFunction"] * 0.8

    def test_environments_with_customers_reserve(self) -> None:
        settings = tomllib.loads((ROOT / "samconfig.toml").read_text())
        quotas = {
            name: [one for one in section["deploy"]["parameters"]["parameter_overrides"] if "ConcurrencyQuota" in one]
            for name, section in settings.items()
            if name != "version"
        }
        reserves = ["ConcurrencyQuota=1000"]
        assert quotas == {"default": [], "staging": reserves, "prod": reserves, "dr": reserves}

    def test_listeners_of_a_new_account_are_few(self, template: Template) -> None:
        """Its quota is 10, and relay and watchdog run all the time."""
        limit = int(variables(template, "EventsFunction", ConcurrencyQuota="none")["ARTIWAY_EVENTS_AT_ONCE"])
        assert 1 <= limit <= 5


class TestTokenKeys:
    """The parameters of each step of docs/deploy.md, and what a stack does with them."""

    STEPS = (
        ({}, [OLD], OLD),
        ({"ExtraTokenKeyArns": NEW}, [OLD, NEW], OLD),
        ({"ExtraTokenKeyArns": NEW, "SigningKeyArn": NEW}, [OLD, NEW], NEW),
        ({"ExtraTokenKeyArns": NEW, "SigningKeyArn": NEW, "DropOwnTokenKey": "true"}, [NEW], NEW),
        (
            {"ExtraTokenKeyArns": f"{NEW},{NEWEST}", "SigningKeyArn": NEW, "DropOwnTokenKey": "true"},
            [NEW, NEWEST],
            NEW,
        ),
        ({"ExtraTokenKeyArns": NEWEST, "SigningKeyArn": NEWEST, "DropOwnTokenKey": "true"}, [NEWEST], NEWEST),
    )

    @pytest.mark.parametrize(("parameters", "accepted", "signing"), STEPS)
    def test_step_accepts_and_signs(
        self, template: Template, parameters: dict[str, str], accepted: list[str], signing: str
    ) -> None:
        resolver = Resolver(template.body, **parameters)
        assert resolver.refused() == []
        keys = resolver(template.resources["TokenKeys"]["Properties"])
        assert (keys["KeyIds"], keys["SigningKeyId"]) == (accepted, signing)
        assert variables(template, "AuthFunction", **parameters)["ARTIWAY_TOKEN_KEY_ID"] == signing
        assert self.may(template, resolver, "AuthFunction", "kms:Sign") == [signing]
        assert set(accepted) <= set(self.may(template, resolver, "DeployFunction", "kms:GetPublicKey"))

    @pytest.mark.parametrize(
        ("parameters", "rule"),
        [
            ({"SigningKeyArn": NEW}, "SigningKeyIsAccepted"),
            ({"SigningKeyArn": NEW, "ExtraTokenKeyArns": NEWEST}, "SigningKeyIsAccepted"),
            ({"DropOwnTokenKey": "true"}, "AnotherKeySigns"),
            ({"DropOwnTokenKey": "true", "ExtraTokenKeyArns": NEW}, "AnotherKeySigns"),
        ],
    )
    def test_step_out_of_order_is_refused(self, template: Template, parameters: dict[str, str], rule: str) -> None:
        assert Resolver(template.body, **parameters).refused() == [rule]

    @staticmethod
    def may(template: Template, resolver: Resolver, function: str, action: str) -> list[str]:
        (statement,) = (one for one in template.granted(function) if action in many(one["Action"]))
        return [one.removesuffix(".Arn") for one in many(resolver(statement["Resource"]))]
