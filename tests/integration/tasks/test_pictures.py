"""Pictures of a task: originals handed out again, results deleted, first results in lists."""

from __future__ import annotations

import pytest

from artiway.delivery.uploads.model import NoSuchResult, TaskNotEnded
from artiway.ids import new_id
from artiway.tasks.model import ColleaguesTask, NoSuchTask, Requester
from tests.integration.tasks.test_delivery import HERE, objects, png, upload, uploads  # noqa: F401 (fixtures)
from tests.integration.tasks.test_life import deliver_all, held, submit


@pytest.fixture
def finished(world, uploads, objects):  # noqa: F811
    """A cut-out that has ended, its tenant and its upload."""
    tenant = world.tenant(points=100)
    world.worker()
    input_id = upload(uploads, objects, tenant, png())
    task = submit(world, tenant, "cutout", inputs={"product": input_id}, params={"featherPx": 2})
    deliver_all(world)
    world.finish(*held(world, "cutout"))
    deliver_all(world)
    return tenant, task, input_id


def names(uploads, tenant, task):  # noqa: F811
    return [one.name for one in uploads.results(tenant_id=tenant[0], task_id=task.task_id, base_url=HERE)]


def delete(uploads, tenant, task, name="cutout", requester=None):  # noqa: F811
    asked = requester or Requester(tenant[1], may_manage=False)
    uploads.delete_result(tenant_id=tenant[0], task_id=task.task_id, name=name, requester=asked)


def test_request_shows_originals_params_and_count(uploads, finished):  # noqa: F811
    tenant, task, input_id = finished
    asked = uploads.request(tenant_id=tenant[0], task_id=task.task_id, base_url=HERE)
    (original,) = asked.originals
    assert (original.name, original.input_id) == ("product", input_id)
    assert original.url.startswith(f"{HERE}/inputs/{tenant[0]}/{input_id}?")
    assert (asked.params, asked.count) == ({"featherPx": 2}, None)


def test_original_that_expired_has_no_address(world, uploads, finished):  # noqa: F811
    tenant, task, input_id = finished
    world.superuser.execute("UPDATE upload SET expires_at = now() - interval '1 s' WHERE input_id = %s", [input_id])
    (original,) = uploads.request(tenant_id=tenant[0], task_id=task.task_id, base_url=HERE).originals
    assert (original.url, original.expires_at) == (None, None)


def test_deleted_result_leaves_lists_and_its_row_stays(world, uploads, finished):  # noqa: F811
    tenant, task, _ = finished
    assert names(uploads, tenant, task) == ["cutout"]
    delete(uploads, tenant, task)
    delete(uploads, tenant, task)
    assert names(uploads, tenant, task) == []
    assert uploads.request(tenant_id=tenant[0], task_id=task.task_id, base_url=HERE).deleted == ["cutout"]
    query = "SELECT deleted_at IS NOT NULL AS gone, expires_at <= now() AS due, cleanup_status FROM artefact"
    assert world.rows(query) == [{"gone": True, "due": True, "cleanup_status": 0}], "the nightly pass finds it"
    assert [row["details"] for row in world.rows("SELECT details FROM audit_log WHERE action = 'picture.deleted'")] == [
        {"name": "cutout"}
    ]


def test_only_the_own_ended_task_can_be_cleaned(world, uploads, finished):  # noqa: F811
    tenant, task, _ = finished
    with pytest.raises(ColleaguesTask):
        delete(uploads, tenant, task, requester=Requester(new_id(), may_manage=False))
    with pytest.raises(NoSuchResult):
        delete(uploads, tenant, task, name="another")
    with pytest.raises(NoSuchTask):
        delete(uploads, world.tenant(), task)
    running = submit(world, tenant, "cutout")
    with pytest.raises(TaskNotEnded):
        delete(uploads, tenant, running)
    assert names(uploads, tenant, task) == ["cutout"]
    delete(uploads, tenant, task, requester=Requester(new_id(), may_manage=True))
    assert names(uploads, tenant, task) == []


def test_lists_have_the_first_result_of_each_task(uploads, finished):  # noqa: F811
    tenant, task, _ = finished
    other = new_id()
    found = uploads.thumbnails(tenant_id=tenant[0], task_ids=[task.task_id, other], base_url=HERE)
    assert list(found) == [task.task_id]
    assert found[task.task_id].url.startswith(f"{HERE}/outputs/")
    assert uploads.thumbnails(tenant_id=tenant[0], task_ids=[], base_url=HERE) == {}
