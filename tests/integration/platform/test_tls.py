"""TLS to PostgreSQL and Redis is verified: a wrong certificate is refused before anything is sent."""

from __future__ import annotations

import contextlib
import json
from dataclasses import dataclass
from pathlib import Path

import psycopg
import pytest
import redis as redis_package

from artiway.platform import redis
from artiway.platform.database import Database, DatabaseAway
from tests.fakes.tls import Authority, Front, tls_front

HOST = "localhost"


@dataclass(frozen=True)
class Case:
    """A server's certificate, and the reason for which a client that trusts `right` refuses it."""

    authority: str
    host: str
    postgres_reason: str = ""
    redis_reason: str = ""


RIGHT = Case("right", HOST)
WRONG = [
    pytest.param(
        Case("right", "other.example", 'for "other.example" does not match host name "localhost"', "Hostname mismatch"),
        id="host",
    ),
    pytest.param(Case("wrong", HOST, "certificate verify failed", "certificate verify failed"), id="authority"),
]


@pytest.fixture(scope="module")
def authorities(tmp_path_factory):
    folder = tmp_path_factory.mktemp("certificates")
    return {name: Authority(folder, name) for name in ("right", "wrong")}


def certificate(authorities: dict[str, Authority], case: Case) -> Path:
    return authorities[case.authority].server(case.host)


class TestPostgres:
    @pytest.fixture
    def connect(self, authorities, addresses):
        """A Database behind a server with this certificate."""
        with contextlib.ExitStack() as stack:

            def make(case: Case, query: str = "", authority: str = "right") -> tuple[Database, Front]:
                port = psycopg.conninfo.conninfo_to_dict(addresses.service)["port"]
                name = psycopg.conninfo.conninfo_to_dict(addresses.service)["dbname"]
                front = stack.enter_context(tls_front(int(str(port)), certificate(authorities, case), is_postgres=True))
                query = query or f"sslmode=verify-full&sslrootcert={authorities[authority].roots}"
                database = Database(f"postgresql://artiway_service:test@{HOST}:{front.port}/{name}?{query}")
                stack.callback(database.close)
                return database, front

            yield make

    def test_right_certificate_is_accepted(self, connect):
        database, front = connect(RIGHT)
        with database.service_transaction() as tx:
            assert tx.one(b"SELECT current_user::text AS name") == {"name": "artiway_service"}
        assert front.has_received()

    @pytest.mark.parametrize("case", WRONG)
    def test_wrong_certificate_is_refused_and_nothing_sent(self, case, connect, capsys):
        database, front = connect(case)
        with pytest.raises(DatabaseAway) as refused, database.service_transaction():
            pytest.fail("connected")
        front.wait()
        assert case.postgres_reason in str(refused.value.__cause__)
        assert json.dumps(case.postgres_reason)[1:-1] in capsys.readouterr().out  # the log has the reason
        assert not front.has_received()

    def test_missing_roots_are_refused_by_name(self, connect, tmp_path):
        database, front = connect(RIGHT, f"sslmode=verify-full&sslrootcert={tmp_path}/rds.pem")
        with pytest.raises(DatabaseAway) as refused, database.service_transaction():
            pytest.fail("connected")
        assert "rds.pem" in str(refused.value.__cause__)
        assert not front.has_received()

    def test_server_without_tls_is_refused(self, addresses, authorities):
        query = f"sslmode=verify-full&sslrootcert={authorities['right'].roots}"
        port = psycopg.conninfo.conninfo_to_dict(addresses.service)["port"]
        with pytest.raises(psycopg.OperationalError, match="server does not support SSL"):
            psycopg.connect(f"postgresql://artiway_service:test@{HOST}:{port}/postgres?{query}")

    def test_wheel_of_psycopg_has_no_system_roots(self, connect):
        """So `sslrootcert=system` would refuse every server, and the layer carries the roots."""
        database, _ = connect(RIGHT, "sslmode=verify-full&sslrootcert=system")
        with pytest.raises(DatabaseAway) as refused, database.service_transaction():
            pytest.fail("connected")
        assert "certificate verify failed" in str(refused.value.__cause__)


class TestRedis:
    @pytest.fixture
    def connect(self, authorities, valkey_url):
        with contextlib.ExitStack() as stack:

            def make(case: Case) -> tuple[redis_package.Redis, Front]:
                backend = int(valkey_url.rpartition(":")[2].partition("/")[0])
                front = stack.enter_context(tls_front(backend, certificate(authorities, case), is_postgres=False))
                roots = authorities["right"].roots
                client = redis.connect(f"rediss://{HOST}:{front.port}/0?ssl_ca_certs={roots}", timeout_s=10)
                stack.callback(client.close)
                return client, front

            yield make

    def test_right_certificate_is_accepted(self, connect):
        client, front = connect(RIGHT)
        assert client.ping()
        assert front.has_received()

    @pytest.mark.parametrize("case", WRONG)
    def test_wrong_certificate_is_refused_and_nothing_sent(self, case, connect):
        client, front = connect(case)
        with pytest.raises(redis_package.ConnectionError, match=case.redis_reason):
            client.ping()
        front.wait()
        assert not front.has_received()
