"""The roles on RDS: an owner that is no superuser, and `rds_iam`, whose members cannot use a password."""

from __future__ import annotations

import contextlib
import json
import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import boto3
import psycopg
import pytest
from moto import mock_aws
from psycopg.conninfo import make_conninfo
from pydantic import SecretStr

from artiway.bootstrap import base, deployment
from artiway.platform import aws, migrations
from artiway.platform.database import Database, with_iam_password
from artiway.platform.migrations import Migration, migrate
from artiway.platform.settings import Settings
from local.database import bootstrap
from local.servers import Server, free_port, running, start_postgres
from tests.fakes import rds
from tests.fakes.tls import Authority


@pytest.fixture(scope="module")
def authority(tmp_path_factory):
    return Authority(tmp_path_factory.mktemp("certificates"), "rds-root")


@pytest.fixture(scope="module")
def one_server():
    """A server of one's own: its roles and its pg_hba.conf belong to the whole server."""
    with tempfile.TemporaryDirectory(prefix="artiway-tests-") as home:
        Path(home).chmod(0o755)
        with running(start_postgres(Path(home), free_port(), is_durable=False)) as started:
            yield started


@pytest.fixture
def server(one_server):
    yield one_server
    rds.remove(one_server)


@contextlib.contextmanager
def new_cluster(server: Server, authority: Authority) -> Iterator[tuple[rds.Rds, Callable[[], str]]]:
    """An empty database of RDS, and a call that migrates as DeployFunction does and returns how the owner signed in."""
    rds.prepare(server)
    with (
        mock_aws(),  # also sets the credentials that sign the tokens
        rds.running_rds(server, authority.server(rds.HOST), authority.roots) as cluster,
        pytest.MonkeyPatch.context() as patch,
    ):
        patch.setenv("AWS_REGION", rds.REGION)
        patch.setattr(aws, "client", partial(boto3.client, region_name=rds.REGION))
        secret = json.dumps({"username": rds.OWNER, "password": rds.MASTER_PASSWORD})
        arn = aws.client("secretsmanager").create_secret(Name="rds", SecretString=secret)["ARN"]
        base.settings.supply(Settings(owner_database_url=SecretStr(cluster.url(rds.OWNER)), owner_secret_arn=arn))

        def deploy() -> str:
            url = deployment.owner_database_url()
            migrate(url)
            cluster.front.wait()
            return "password" if rds.MASTER_PASSWORD in url else "iam"

        yield cluster, deploy
        base.settings.cache_clear()
        cluster.front.wait()


@pytest.fixture
def new(server, authority):
    with new_cluster(server, authority) as made:
        yield made


@pytest.fixture(scope="class")
def cluster(one_server, authority):
    """Migrated once for all tests of a class."""
    with new_cluster(one_server, authority) as (made, deploy):
        deploy()
        yield made
    rds.remove(one_server)


def signed_in_as(url: str) -> str:
    with psycopg.connect(with_iam_password(url)) as connection:
        found = connection.execute("SELECT current_user").fetchone()
        assert found is not None
        return found[0]


class TestDeployments:
    def test_first_uses_password_and_later_ones_iam(self, new):
        _, deploy = new
        assert [deploy(), deploy(), deploy()] == ["password", "iam", "iam"]

    @pytest.mark.parametrize("at", [1, 2, 20])
    def test_failed_deployment_can_be_repeated(self, at, new, monkeypatch):
        """The migration fails, and the roles and the sign-in of the owner are those of a half-made database."""
        cluster, deploy = new
        every = migrations.available()
        broken = Migration(at, every[at - 1].name, every[at - 1].text + b"\nSELECT 1 / 0;")
        monkeypatch.setattr(migrations, "available", lambda: [*every[: at - 1], broken, *every[at:]])
        with pytest.raises(psycopg.errors.DivisionByZero):
            deploy()
        cluster.front.wait()
        monkeypatch.setattr(migrations, "available", lambda: every)
        assert [deploy(), deploy()] == ["iam", "iam"]
        with psycopg.connect(cluster.server.url, dbname="artiway") as superuser:
            found = superuser.execute("SELECT count(*) FROM schema_migration").fetchone()
        assert found == (len(every),)

    def test_password_of_owner_ends_with_first_migration(self, new, monkeypatch):
        """The trap: the owner is a member of the roles that it created, so RDS refuses its password."""
        cluster, deploy = new
        monkeypatch.setitem(migrations.SQL, "sign_in_by_iam", b"SELECT 1")  # type: ignore[misc]
        assert deploy() == "password"
        with pytest.raises(psycopg.OperationalError, match="PAM authentication failed"):
            psycopg.connect(cluster.url(rds.OWNER, rds.MASTER_PASSWORD))


class TestSignIn:
    @pytest.mark.parametrize("role", ["artiway_owner", "artiway_app", "artiway_service"])
    def test_every_role_signs_in_with_iam(self, role, cluster):
        assert signed_in_as(cluster.url(role)) == role

    def test_database_works_with_iam_without_password(self, cluster):
        database = Database(cluster.url("artiway_service"))
        with contextlib.closing(database), database.service_transaction() as tx:
            assert tx.one(b"SELECT count(*) AS n FROM outbox") == {"n": 0}

    @pytest.mark.parametrize("role", ["artiway_owner", "artiway_app"])
    def test_passwords_are_refused_after_first_migration(self, role, cluster):
        with pytest.raises(psycopg.OperationalError, match="PAM authentication failed"):
            psycopg.connect(cluster.url(role, rds.MASTER_PASSWORD))

    def test_token_of_another_role_is_refused(self, cluster):
        token = with_iam_password(cluster.url("artiway_app"))
        with pytest.raises(psycopg.OperationalError, match="PAM authentication failed"):
            psycopg.connect(make_conninfo(token, user="artiway_service"))

    def test_owner_is_no_superuser_and_sees_no_rows(self, cluster):
        with psycopg.connect(with_iam_password(cluster.url(rds.OWNER))) as owner:
            found = owner.execute("SELECT rolsuper, rolbypassrls FROM pg_roles WHERE rolname = current_user").fetchone()
        assert found == (False, False)


class TestLocalStack:
    def test_roles_are_created_by_owner_as_on_rds(self, server, tmp_path):
        urls = bootstrap(server.url, tmp_path)
        assert len(migrate(urls["artiway_owner"])) == len(migrations.available())
        with psycopg.connect(server.url) as superuser:
            rows = superuser.execute(
                "SELECT roleid::regrole::text, admin_option, inherit_option, set_option FROM pg_auth_members"
                " WHERE member = 'artiway_owner'::regrole ORDER BY 1"
            ).fetchall()
            found = superuser.execute("SELECT rolsuper FROM pg_roles WHERE rolname = 'artiway_owner'").fetchone()
        assert rows == [("artiway_app", True, False, False), ("artiway_service", True, False, False)]
        assert found == (False,)
        assert {signed_in_as(url) for url in urls.values()} == set(urls)

    def test_roles_of_earlier_release_are_taken_over(self, server, tmp_path):
        """An earlier release let the superuser create all three."""
        with psycopg.connect(server.url, autocommit=True) as superuser:
            for role in ("artiway_owner", "artiway_app", "artiway_service"):
                superuser.execute(f"CREATE ROLE {role}")
        for _ in range(2):
            urls = bootstrap(server.url, tmp_path)
        assert {signed_in_as(url) for url in urls.values()} == set(urls)
