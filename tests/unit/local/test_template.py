"""From a SAM template to what the emulator deploys, and what is refused on the way."""

from __future__ import annotations

import copy
import textwrap
from pathlib import Path
from typing import Any

import pytest

from local.template import LocalTemplate, TemplateRefused, load, localise, references, translate

SAMPLE = """
Transform: AWS::Serverless-2016-10-31
Globals:
  Function:
    Runtime: python3.13
    Handler: app.handler
    Layers: [!Ref Core]
    VpcConfig: {SubnetIds: [!Ref Subnet], SecurityGroupIds: []}
    Environment: {Variables: {ARTIWAY_DATABASE_URL: !Sub 'postgresql://app@${Database.Endpoint.Address}/artiway'}}
Resources:
  Core:
    Type: AWS::Serverless::LayerVersion
    Properties: {ContentUri: layers/core}
  Subnet:
    Type: AWS::EC2::Subnet
  Database:
    Type: AWS::RDS::DBInstance
    DependsOn: Subnet
  HttpApi:
    Type: AWS::Serverless::HttpApi
    Properties:
      Auth:
        DefaultAuthorizer: Token
        Authorizers:
          Token:
            FunctionArn: !GetAtt Guard.Arn
            AuthorizerPayloadFormatVersion: '2.0'
            EnableSimpleResponses: true
            Identity: {Headers: [Authorization], ReauthorizeEvery: 60}
  Guard:
    Type: AWS::Serverless::Function
    Properties: {CodeUri: functions/guard}
  Hello:
    Type: AWS::Serverless::Function
    DependsOn: [Database, Guard]
    Properties:
      CodeUri: functions/hello
      ReservedConcurrentExecutions: 2
      Policies: [AWSLambdaBasicExecutionRole, {SQSSendMessagePolicy: {QueueName: !GetAtt Queue.QueueName}}]
      Environment: {Variables: {SOCKETS: !Sub 'https://${Sockets}.execute-api.${AWS::Region}.${AWS::URLSuffix}/live'}}
      Events:
        Open: {Type: HttpApi, Properties: {ApiId: !Ref HttpApi, Method: GET, Path: /open, Auth: {Authorizer: NONE}}}
        Closed: {Type: HttpApi, Properties: {ApiId: !Ref HttpApi, Method: ANY, Path: '/closed/{id}'}}
        Rest: {Type: HttpApi, Properties: {ApiId: !Ref HttpApi, Auth: {Authorizer: NONE}}}
        Queue: {Type: SQS, Properties: {Queue: !GetAtt Queue.Arn, BatchSize: 5}}
  Queue:
    Type: AWS::SQS::Queue
  Files:
    Type: AWS::S3::Bucket
  Sockets:
    Type: AWS::ApiGatewayV2::Api
    Properties: {Name: sockets, ProtocolType: WEBSOCKET, RouteSelectionExpression: $request.body.action}
  SocketsDeployment:
    Type: AWS::ApiGatewayV2::Deployment
    Properties: {ApiId: !Ref Sockets}
  SocketsStage:
    Type: AWS::ApiGatewayV2::Stage
    Properties: {ApiId: !Ref Sockets, StageName: live, DeploymentId: !Ref SocketsDeployment}
  Setup:
    Type: Custom::Setup
    Properties: {ServiceToken: !GetAtt Hello.Arn}
  Steps:
    Type: AWS::Serverless::StateMachine
    Properties:
      DefinitionUri: steps.asl.yaml
      DefinitionSubstitutions: {Queue: !Ref Queue}
Outputs:
  Queue: {Value: !Ref Queue}
  Database: {Value: !GetAtt Database.Endpoint.Address}
"""
VARIABLES = {"ARTIWAY_DATABASE_URL": "postgresql://here/artiway", "ARTIWAY_REDIS_URL": "redis://here"}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for folder in ("functions/guard", "functions/hello", "layers/core"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "steps.asl.yaml").write_text("StartAt: Stop\nStates: {Stop: {Type: Succeed}}\n")
    (tmp_path / "template.yaml").write_text(textwrap.dedent(SAMPLE))
    return tmp_path


def localised(root: Path, translated: dict[str, Any]) -> LocalTemplate:
    return localise(translated, root=root, aws_url="http://aws", lambda_url="http://lambda", variables=VARIABLES)


@pytest.fixture
def translated(root: Path) -> dict[str, Any]:
    return translate(load(root / "template.yaml"))


@pytest.fixture
def local(root: Path, translated: dict[str, Any]) -> LocalTemplate:
    return localised(root, translated)


def properties(local: LocalTemplate, name: str) -> dict[str, Any]:
    found: dict[str, Any] = local.body["Resources"][name]["Properties"]
    return found


def test_function_has_logical_id_and_source_folder(root: Path, local: LocalTemplate) -> None:
    assert set(local.functions) == {"Guard", "Hello"}
    hello = local.functions["Hello"]
    assert (hello.folder, hello.layer) == (root / "functions/hello", root / "layers/core")
    assert hello.concurrency == 2
    assert properties(local, "Hello")["FunctionName"] == "Hello"


def test_deployed_function_points_at_the_lambda_server(local: LocalTemplate) -> None:
    hello = properties(local, "Hello")
    assert not {"Code", "Layers", "VpcConfig"} & set(hello)
    assert hello["Environment"]["Variables"]["MINISTACK_LAMBDA_PROXY_URL"] == "http://lambda/proxy/Hello"


def test_only_declared_variables_get_local_addresses(local: LocalTemplate) -> None:
    variables = properties(local, "Hello")["Environment"]["Variables"]
    assert variables["ARTIWAY_DATABASE_URL"] == "postgresql://here/artiway"
    assert "ARTIWAY_REDIS_URL" not in variables


def test_api_management_address_points_at_the_emulator(local: LocalTemplate) -> None:
    variables = properties(local, "Hello")["Environment"]["Variables"]
    assert variables["SOCKETS"] == {"Fn::Sub": "http://aws/_aws/execute-api/${Sockets}/live"}


def test_openapi_routes_become_resources_with_their_authorizer(local: LocalTemplate) -> None:
    resources = local.body["Resources"].values()
    routes = {r["Properties"]["RouteKey"]: r["Properties"] for r in resources if r["Type"].endswith("V2::Route")}
    assert set(routes) == {"GET /open", "ANY /closed/{id}", "$default"}
    assert "AuthorizerId" not in routes["GET /open"]
    assert "AuthorizerId" not in routes["$default"]
    guard = properties(local, routes["ANY /closed/{id}"]["AuthorizerId"]["Ref"])
    assert routes["ANY /closed/{id}"]["AuthorizationType"] == "CUSTOM"
    assert (guard["AuthorizerResultTtlInSeconds"], guard["EnableSimpleResponses"]) == (60, True)
    assert guard["IdentitySource"] == ["$request.header.Authorization"]
    integration = properties(local, routes["GET /open"]["Target"]["Fn::Join"][1][1]["Ref"])
    assert {name for name, _ in references(integration)} >= {"HttpApi", "Hello"}


def test_apis_have_fixed_ids_for_the_edge(local: LocalTemplate) -> None:
    assert properties(local, "HttpApi")["Tags"] == {"ms-custom-id": local.http.api_id}
    assert local.websocket is not None
    assert properties(local, "Sockets")["Tags"] == {"ms-custom-id": local.websocket.api_id}
    assert (local.http.stage, local.websocket.stage) == ("$default", "live")


def test_dropped_resources_take_their_references_along(local: LocalTemplate) -> None:
    assert not {"Database", "Subnet", "SocketsDeployment"} & set(local.body["Resources"])
    assert local.body["Resources"]["Hello"]["DependsOn"] == ["Guard"]
    assert set(local.body["Outputs"]) == {"Queue"}
    assert "Policies" not in properties(local, "HelloRole")


def test_state_machine_is_inlined_and_bucket_named(local: LocalTemplate) -> None:
    assert "DefinitionString" in properties(local, "Steps")
    assert properties(local, "Files")["BucketName"] == "artiway-files"
    assert properties(local, "Setup")["ServiceTimeout"] == 60


def test_localising_does_not_change_its_input(root: Path, translated: dict[str, Any]) -> None:
    before = copy.deepcopy(translated)
    localised(root, translated)
    assert translated == before


def test_unknown_resource_type_is_refused_by_name(root: Path, translated: dict[str, Any]) -> None:
    translated["Resources"]["Lake"] = {"Type": "AWS::Glue::Database"}
    with pytest.raises(TemplateRefused, match=r"Lake \(AWS::Glue::Database\)"):
        localised(root, translated)


@pytest.mark.parametrize(
    "value",
    [
        {"Ref": "Database"},
        {"Fn::GetAtt": ["Database", "Endpoint.Address"]},
        {"Fn::GetAtt": "Database.Endpoint.Address"},
        {"Fn::Sub": "x-${Database.Endpoint.Address}"},
        {"Fn::Sub": ["${a}", {"a": {"Ref": "Database"}}]},
        {"Fn::Join": ["", ["a", {"Ref": "Nobody"}]]},
    ],
)
def test_dangling_reference_is_refused_with_its_path(root: Path, translated: dict[str, Any], value: object) -> None:
    translated["Resources"]["Queue"]["Properties"] = {"QueueName": value}
    with pytest.raises(TemplateRefused, match=r"(Database|Nobody) \(at Resources.Queue.Properties.QueueName"):
        localised(root, translated)


def test_local_names_of_a_sub_are_no_references() -> None:
    assert list(references({"Fn::Sub": ["${a}-${!b}-${c.Arn}", {"a": 1}]})) == [("c", "")]


def test_unknown_intrinsic_is_refused_by_name(root: Path, translated: dict[str, Any]) -> None:
    translated["Resources"]["Queue"]["Properties"] = {"QueueName": {"Fn::ImportValue": "other"}}
    with pytest.raises(TemplateRefused, match="Fn::ImportValue"):
        localised(root, translated)


def test_authorizer_of_another_type_is_refused(root: Path, translated: dict[str, Any]) -> None:
    schemes = translated["Resources"]["HttpApi"]["Properties"]["Body"]["components"]["securitySchemes"]
    schemes["Token"]["x-amazon-apigateway-authorizer"]["type"] = "jwt"
    with pytest.raises(TemplateRefused, match="Token"):
        localised(root, translated)


def test_a_second_http_api_is_refused(root: Path, translated: dict[str, Any]) -> None:
    for kind in ("HttpApi", "HttpApiApiGatewayDefaultStage"):
        twin = copy.deepcopy(translated["Resources"][kind])
        twin["Properties"].pop("Body", None)
        translated["Resources"][f"Second{kind}"] = twin
    translated["Resources"]["SecondHttpApi"]["Properties"]["ProtocolType"] = "HTTP"
    translated["Resources"]["SecondHttpApiApiGatewayDefaultStage"]["Properties"]["ApiId"] = {"Ref": "SecondHttpApi"}
    with pytest.raises(TemplateRefused, match="exactly one HTTP API"):
        localised(root, translated)


def test_an_api_without_a_stage_is_refused(root: Path, translated: dict[str, Any]) -> None:
    del translated["Resources"]["SocketsStage"]
    with pytest.raises(TemplateRefused, match="Sockets needs one stage"):
        localised(root, translated)


def test_missing_code_folder_is_refused(root: Path) -> None:
    (root / "functions/hello").rmdir()
    with pytest.raises(TemplateRefused, match="Hello: CodeUri 'functions/hello'"):
        load(root / "template.yaml")


def test_invalid_yaml_is_refused_with_its_position(root: Path) -> None:
    (root / "template.yaml").write_text("Resources: {")
    with pytest.raises(TemplateRefused, match="line 2"):
        load(root / "template.yaml")


def test_sam_errors_are_refused_with_their_reason(root: Path) -> None:
    template = load(root / "template.yaml")
    template["Resources"]["Hello"]["Properties"]["Events"]["Queue"]["Properties"] = {"BatchSize": 5}
    with pytest.raises(TemplateRefused, match="Hello"):
        translate(template)
