"""The services that the platform sells, as they are deployed."""

from __future__ import annotations

from artiway.generations import services
from artiway.generations.model import Mode
from artiway.settings.model import Defaults


def test_no_service_of_a_stream_sees_pictures() -> None:
    """The function of the stream lanes may not read the bucket of pictures."""
    sold = services.Services(services.load(), Defaults())
    streamed = {stage for _, stage in sold.in_lane(Mode.STREAM)}
    assert streamed
    assert [name for name in streamed if sold.get(name).sees_picture] == []
