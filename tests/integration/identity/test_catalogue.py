"""Isolation by PostgreSQL's catalogue: a new table without protection fails here."""

from __future__ import annotations

from typing import Any

import psycopg
import pytest
from psycopg.rows import dict_row

APP, SERVICE = "artiway_app", "artiway_service"
OWNER = "artiway_owner"
TENANT_ROWS = "(tenant_id = current_tenant())"
# Tables without a tenant, each with the reason why no row of it belongs to one. The application writes none of them.
WITHOUT_TENANT = {
    "schema_migration": "the deployment's own history",
    "login_failure": "failed logins by account and address, most of which name no user",
    "password_reset": "asked for by a login, most of which may name no user",
    "invariant_pass": "when the books of all tenants were last found right",
    "sweep_position": "where a pass over the rows of all tenants stopped",
    "lane_setting": "lanes are the platform's, shared by all tenants",
    "bill_day": "a day of the merchant's account at WeChat, in which all tenants pay",
    "generation_clock": "the virtual time of a lane, by which all tenants share it",
    "text_route": "the models of each lane, from the operator's document of providers",
    "live_setting": "settings are the platform's, shared by all tenants",
    "model_setting": "limits of models are the platform's, shared by all tenants",
    "circuit": "steps that fail in a pool, whatever tenant's nodes they are",
    "series_minute": "aggregates over all tenants, read by operators; a tenant is a label",
    "series_day": "service levels are the platform's",
    "series_pass": "up to which minute the aggregates of all tenants are written",
    "worker": "workers are the platform's, shared by all tenants",
}
# Functions that run as their owner, each with the reason.
RUNS_AS_OWNER = {"job_partition_ensure": "makes the empty partitions of a day; no argument but the day, no row read"}
# What a role may do with a table and no more: no emptying past the policies, no triggers, no keys into it.
PRIVILEGES = {"SELECT", "INSERT", "UPDATE", "DELETE"}

RELATIONS = """
SELECT c.relname AS name, c.relkind AS kind, c.relrowsecurity AS is_enabled, c.relforcerowsecurity AS is_forced,
       r.rolname AS owner, coalesce(c.reloptions, '{}') AS options,
       EXISTS (SELECT FROM pg_attribute a WHERE a.attrelid = c.oid AND a.attname = 'tenant_id' AND NOT a.attisdropped)
           AS has_tenant
  FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace JOIN pg_roles r ON r.oid = c.relowner
 WHERE n.nspname NOT IN ('pg_catalog', 'information_schema', 'pg_toast') AND c.relkind IN ('r', 'p', 'v', 'm', 'f')
"""
POLICIES = "SELECT tablename, policyname, permissive, roles::text[], cmd, qual, with_check FROM pg_policies"
GRANTS = """
SELECT c.relname AS name, coalesce(r.rolname, 'PUBLIC') AS grantee, a.privilege_type AS privilege
  FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace,
       LATERAL aclexplode(c.relacl) a LEFT JOIN pg_roles r ON r.oid = a.grantee
 WHERE n.nspname = 'public' AND c.relkind IN ('r', 'p', 'v')
UNION
SELECT c.relname, coalesce(r.rolname, 'PUBLIC'), a.privilege_type
  FROM pg_attribute t JOIN pg_class c ON c.oid = t.attrelid JOIN pg_namespace n ON n.oid = c.relnamespace,
       LATERAL aclexplode(t.attacl) a LEFT JOIN pg_roles r ON r.oid = a.grantee
 WHERE n.nspname = 'public'
"""
ROLES = """
SELECT r.rolname AS name, r.rolsuper AS is_super, r.rolbypassrls AS is_bypassing, r.rolcreaterole AS makes_roles,
       r.rolcreatedb AS makes_databases, r.rolreplication AS replicates,
       ARRAY(SELECT g.rolname::text FROM pg_auth_members m JOIN pg_roles g ON g.oid = m.roleid WHERE m.member = r.oid)
           AS member_of
  FROM pg_roles r WHERE r.rolname !~ '^pg_'
"""
OWNED = """
SELECT o.rolname AS owner, 'function ' || p.proname AS what FROM pg_proc p JOIN pg_roles o ON o.oid = p.proowner
UNION ALL SELECT o.rolname, 'schema ' || n.nspname FROM pg_namespace n JOIN pg_roles o ON o.oid = n.nspowner
UNION ALL SELECT o.rolname, 'database ' || d.datname FROM pg_database d JOIN pg_roles o ON o.oid = d.datdba
"""
DEFINERS = """
SELECT p.proname AS name FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace
 WHERE n.nspname = 'public' AND p.prosecdef
"""
# Pairs of tables that both have tenants, joined by a foreign key that does not compare them.
LOOSE_KEYS = """
SELECT k.conname AS name, c.relname AS source
  FROM pg_constraint k JOIN pg_class c ON c.oid = k.conrelid
  JOIN pg_attribute own ON own.attrelid = k.conrelid AND own.attname = 'tenant_id'
  JOIN pg_attribute far ON far.attrelid = k.confrelid AND far.attname = 'tenant_id'
 WHERE k.contype = 'f'
   AND NOT EXISTS (SELECT FROM unnest(k.conkey, k.confkey) AS pair (here, there)
                    WHERE here = own.attnum AND there = far.attnum)
"""


def violations(connection: psycopg.Connection[dict[str, Any]]) -> list[str]:
    """Everything that could let a row be seen or changed from another tenant."""
    relations = connection.execute(RELATIONS).fetchall()
    policies = connection.execute(POLICIES).fetchall()
    grants = connection.execute(GRANTS).fetchall()
    found = []
    for relation in relations:
        name = relation["name"]
        if relation["owner"] != OWNER:
            found.append(f"{name} belongs to {relation['owner']}")
        granted = {grant["privilege"] for grant in grants if (grant["name"], grant["grantee"]) == (name, APP)}
        match relation["kind"]:
            case "v" if "security_invoker=true" not in relation["options"]:
                found.append(f"view {name} shows what its owner sees")
            case "m" | "f":
                found.append(f"{name} is neither a table nor a view: no policy guards it")
            case "r" | "p" if relation["has_tenant"]:
                if not (relation["is_enabled"] and relation["is_forced"]):
                    found.append(f"{name} lacks forced row level security")
                found += [
                    problem for policy in policies if policy["tablename"] == name for problem in _problems_of(policy)
                ]
            case "r" | "p" if name not in WITHOUT_TENANT:
                found.append(f"{name} has no tenant and no reason for it")
            case "r" | "p" if granted - {"SELECT"}:
                found.append(f"{name} has no tenant, yet the application writes it")
    found += [
        f"{grant['grantee']} may {grant['privilege']} on {grant['name']}"
        for grant in grants
        if grant["grantee"] != OWNER and (grant["privilege"] not in PRIVILEGES or grant["grantee"] == "PUBLIC")
    ]
    found += _role_problems(connection)
    found += [
        f"{row['name']} runs as its owner" for row in connection.execute(DEFINERS) if row["name"] not in RUNS_AS_OWNER
    ]
    found += [f"foreign key {row['name']} of {row['source']} crosses tenants" for row in connection.execute(LOOSE_KEYS)]
    return found


def _problems_of(policy: dict[str, Any]) -> list[str]:
    label = f"policy {policy['policyname']} of {policy['tablename']}"
    if "public" in policy["roles"]:
        return [f"{label} is for everybody"]
    if APP not in policy["roles"]:
        return []
    checks = {
        "SELECT": [policy["qual"]],
        "DELETE": [policy["qual"]],
        "INSERT": [policy["with_check"]],
        "UPDATE": [policy["qual"], policy["with_check"] or policy["qual"]],
        "ALL": [policy["qual"], policy["with_check"] or policy["qual"]],
    }[policy["cmd"]]
    is_right = policy["permissive"] == "RESTRICTIVE" or all(check == TENANT_ROWS for check in checks)
    return [] if is_right else [f"{label} shows more than the tenant's rows"]


def _role_problems(connection: psycopg.Connection[dict[str, Any]]) -> list[str]:
    found = []
    superuser = connection.info.user
    for role in connection.execute(ROLES):
        powers = [
            word
            for word in ("is_super", "is_bypassing", "makes_roles", "makes_databases", "replicates")
            if role[word] and not (role["name"] == OWNER and word == "makes_roles")
        ]
        if role["name"] != superuser and powers:
            found.append(f"role {role['name']} {powers[0]}")
        if role["name"] in {APP, SERVICE} and set(role["member_of"]) - {"rds_iam"}:
            found.append(f"role {role['name']} is a member of {role['member_of']}")
    found += [
        f"{row['owner']} owns {row['what']}" for row in connection.execute(OWNED) if row["owner"] in {APP, SERVICE}
    ]
    for role in (APP, SERVICE):
        may = connection.execute("SELECT has_schema_privilege(%s, 'public', 'CREATE') AS may", (role,)).fetchone()
        if may and may["may"]:
            found.append(f"{role} creates in public")
    return found


@pytest.fixture
def catalogue(addresses):
    """A superuser's transaction that is never committed."""
    with psycopg.connect(addresses.superuser, row_factory=dict_row) as connection:
        yield connection
        connection.rollback()


def test_catalogue_satisfies_every_isolation_rule(catalogue):
    assert violations(catalogue) == []


def test_every_table_without_tenant_is_still_there(catalogue):
    """A reason for a table that is gone would cover the next one of its name."""
    names = {row["name"] for row in catalogue.execute(RELATIONS) if not row["has_tenant"] and row["kind"] in "rp"}
    assert set(WITHOUT_TENANT) <= names


PROTECTED = (
    "CREATE TABLE leak (tenant_id uuid NOT NULL, word text); ALTER TABLE leak OWNER TO artiway_owner;"
    "ALTER TABLE leak ENABLE ROW LEVEL SECURITY; ALTER TABLE leak FORCE ROW LEVEL SECURITY;"
)
PARTITION = (
    "CREATE TABLE whole (tenant_id uuid) PARTITION BY HASH (tenant_id); ALTER TABLE whole OWNER TO artiway_owner;"
    "ALTER TABLE whole ENABLE ROW LEVEL SECURITY; ALTER TABLE whole FORCE ROW LEVEL SECURITY;"
    "CREATE TABLE leak PARTITION OF whole FOR VALUES WITH (MODULUS 1, REMAINDER 0);"
    "ALTER TABLE leak OWNER TO artiway_owner"
)
MISTAKES = {
    "a table without row level security": (
        "CREATE TABLE leak (tenant_id uuid); ALTER TABLE leak OWNER TO artiway_owner",
        "leak lacks forced",
    ),
    "a table whose owner passes": (
        PROTECTED + "ALTER TABLE leak NO FORCE ROW LEVEL SECURITY",
        "leak lacks forced",
    ),
    "a partition of a protected table": (
        PARTITION,
        "leak lacks forced",
    ),
    "a policy that shows all": (
        PROTECTED + "CREATE POLICY wide ON leak TO artiway_app USING (true)",
        "policy wide of leak shows more",
    ),
    "a policy that lets anything be written": (
        PROTECTED + "CREATE POLICY wide ON leak TO artiway_app USING (tenant_id = current_tenant()) WITH CHECK (true)",
        "policy wide of leak shows more",
    ),
    "a policy for everybody": (
        PROTECTED + "CREATE POLICY wide ON leak USING (tenant_id = current_tenant())",
        "policy wide of leak is for everybody",
    ),
    "a table without a tenant": (
        "CREATE TABLE leak (word text); ALTER TABLE leak OWNER TO artiway_owner",
        "leak has no tenant",
    ),
    "a writable table without a tenant": (
        "GRANT INSERT ON login_failure TO artiway_app",
        "login_failure has no tenant, yet",
    ),
    "a view with its owner's eyes": (
        "CREATE VIEW leak AS SELECT * FROM app_user; ALTER VIEW leak OWNER TO artiway_owner",
        "view leak shows",
    ),
    "a materialised view": (
        "CREATE MATERIALIZED VIEW leak AS SELECT 1; ALTER MATERIALIZED VIEW leak OWNER TO artiway_owner",
        "leak is neither",
    ),
    "the right to empty a table": ("GRANT TRUNCATE ON app_user TO artiway_service", "artiway_service may TRUNCATE"),
    "a grant to everybody": ("GRANT SELECT ON app_user TO PUBLIC", "PUBLIC may SELECT on app_user"),
    "a grant of one column to everybody": ("GRANT SELECT (email) ON app_user TO PUBLIC", "PUBLIC may SELECT on app_"),
    "a role that bypasses": ("ALTER ROLE artiway_service BYPASSRLS", "role artiway_service is_bypassing"),
    "another role that bypasses": ("CREATE ROLE leak BYPASSRLS", "role leak is_bypassing"),
    "an owner that bypasses": ("ALTER ROLE artiway_owner BYPASSRLS", "role artiway_owner is_bypassing"),
    "a role that becomes another": ("GRANT artiway_service TO artiway_app", "role artiway_app is a member"),
    "a role that owns a table": ("ALTER TABLE outbox OWNER TO artiway_app", "outbox belongs to artiway_app"),
    "a role that owns a function": ("ALTER FUNCTION current_tenant OWNER TO artiway_app", "artiway_app owns function"),
    "a role that creates tables": ("GRANT CREATE ON SCHEMA public TO artiway_app", "artiway_app creates in public"),
    "a function with its owner's eyes": (
        "CREATE FUNCTION leak() RETURNS int LANGUAGE sql SECURITY DEFINER AS 'SELECT 1'",
        "leak runs as its owner",
    ),
    "a key into another tenant": (
        PROTECTED + "ALTER TABLE leak ADD COLUMN user_id uuid REFERENCES app_user (user_id)",
        "foreign key leak_user_id_fkey of leak crosses",
    ),
}


@pytest.mark.parametrize(("mistake", "complaint"), MISTAKES.values(), ids=MISTAKES)
def test_mistake_is_found(catalogue, mistake, complaint):
    catalogue.execute(mistake.encode())
    assert any(problem.startswith(complaint) for problem in violations(catalogue)), violations(catalogue)


@pytest.mark.parametrize("setting", [None, ""], ids=["never set", "set and reset"])
def test_without_tenant_there_is_none_rather_than_error(addresses, setting):
    with psycopg.connect(addresses.app) as connection:
        if setting is not None:
            connection.execute("SELECT set_config('app.tenant_id', %s, false)", (setting,))
        assert connection.execute("SELECT current_tenant()").fetchone() == (None,)
