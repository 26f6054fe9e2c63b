"""The root certificates in the layer: those of Amazon Trust Services, and those of RDS by region."""

from __future__ import annotations

import importlib.util
import re
import ssl
from pathlib import Path

import pytest

from tests.fakes.tls import Authority

CORE = Path(__file__).parents[3] / "layers/core"
CERTIFICATE = re.compile(r"-----BEGIN CERTIFICATE-----.+?-----END CERTIFICATE-----", re.DOTALL)
NAMES = {f"Amazon Root CA {number}" for number in range(1, 5)} | {"Starfield Services Root Certificate Authority - G2"}


def script():
    """The build runs it as a file, outside of any package."""
    spec = importlib.util.spec_from_file_location("rds_roots", CORE / "rds_roots.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_roots_of_amazon_are_those_of_botocore():
    bundle = Path(importlib.util.find_spec("botocore").origin).with_name("cacert.pem").read_text()
    ours = CERTIFICATE.findall((CORE / "roots/amazon.pem").read_text())
    assert set(ours) <= set(CERTIFICATE.findall(bundle))
    assert len(ours) == len(NAMES)


def test_python_loads_the_roots_of_amazon():
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.load_verify_locations(CORE / "roots/amazon.pem")
    subjects = [dict(part[0] for part in one["subject"]) for one in context.get_ca_certs()]
    assert {subject["commonName"] for subject in subjects} == NAMES


class TestRds:
    @pytest.fixture
    def bundle(self, tmp_path):
        """As AWS publishes it: several roots per region, all in one file."""
        names = [
            f"Amazon RDS {region} Root CA {kind} G1" for region in ("us-east-1", "ap-southeast-2") for kind in "AB"
        ]
        return "".join(Authority(tmp_path, name).roots.read_text() for name in names)

    def test_each_region_has_its_own_roots(self, bundle):
        found = script().by_region(bundle)
        assert set(found) == {"us-east-1", "ap-southeast-2"}
        assert "".join(found.values()) == bundle

    @pytest.fixture
    def build(self, tmp_path, monkeypatch):
        """Runs the script with this source and returns its folder."""
        folder = tmp_path / "layer"
        folder.mkdir()

        def run(source: str) -> Path:
            monkeypatch.setenv("RDS_ROOTS", source)
            monkeypatch.setattr("sys.argv", ["rds_roots.py", str(folder)])
            script().main()
            return folder

        return run

    @pytest.mark.parametrize("is_address", [True, False])
    def test_file_of_region_is_written_for_libpq(self, is_address, build, bundle, tmp_path):
        source = tmp_path / "bundle.pem"
        source.write_text(bundle)
        folder = build(source.as_uri() if is_address else str(source))
        assert sorted(file.name for file in folder.iterdir()) == ["rds-ap-southeast-2.pem", "rds-us-east-1.pem"]
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.load_verify_locations(folder / "rds-us-east-1.pem")
        assert len(context.get_ca_certs()) == 2

    def test_build_without_network_warns_and_goes_on(self, tmp_path, monkeypatch, capsys):
        rds_roots = script()
        monkeypatch.setattr(rds_roots, "URL", (tmp_path / "absent.pem").as_uri())
        monkeypatch.setattr("sys.argv", ["rds_roots.py", str(tmp_path)])
        monkeypatch.delenv("RDS_ROOTS", raising=False)
        rds_roots.main()
        assert "Do not deploy" in capsys.readouterr().err

    def test_build_fails_without_the_roots_it_names(self, build, tmp_path):
        (tmp_path / "empty.pem").touch()
        for source, reason in (("absent.pem", "could not be read"), ("empty.pem", "holds no root")):
            with pytest.raises(SystemExit, match=reason):
                build(str(tmp_path / source))

    def test_layers_that_are_not_deployed_need_none(self, build):
        assert list(build("none").iterdir()) == []
