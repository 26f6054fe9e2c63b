"""The SQL and the Redis commands of docs/runbook.md run against real servers, with the rights that it names."""

from __future__ import annotations

import re

import psycopg
import pytest

from tests.unit.template.documents import Document

BLOCKS = Document("runbook.md").blocks
STATEMENTS = [" ".join(text.split()) for block in BLOCKS for text in re.findall(r'^sql "([^"]+)"', block, re.MULTILINE)]
COMMANDS = {words for block in BLOCKS for words in re.findall(r"^redis ([A-Z][\w ]*)$", block, re.MULTILINE)}


def test_the_runbook_has_statements_and_commands():
    assert len(STATEMENTS) > 15
    assert len(COMMANDS) > 4


@pytest.mark.parametrize("statement", STATEMENTS, ids=lambda text: text[:50])
def test_statement_runs_as_the_service_role(addresses, statement):
    with psycopg.connect(addresses.service, autocommit=True) as connection:
        connection.execute(statement.replace("$trace", "1-6afc9c7b-ec986a70bc6e0ea20a48ddf8"))


@pytest.mark.parametrize("command", sorted(COMMANDS))
def test_command_is_allowed_to_the_cache_user(valkey, command):
    # The rights of CacheUser in stacks/data.yaml.
    valkey.acl_setuser("runbook", enabled=True, nopass=True, keys=["*"], channels=["*"], categories=["+@all"])
    valkey.execute_command("ACL", "SETUSER", "runbook", "-@dangerous", "+info")
    words = command.split()
    assert valkey.execute_command("ACL", "DRYRUN", "runbook", *words) == "OK"
    valkey.execute_command(*words)
    valkey.acl_deluser("runbook")
