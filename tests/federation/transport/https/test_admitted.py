import ssl

import pytest

from unalike.errors import UserError
from unalike.federation.transport.https.admitted import Admitted
from unalike.federation.transport.https.certificates import issue_server


def der(place, name):
    return ssl.PEM_cert_to_DER_cert(place.own(name)[0].read_text())


def test_parties_are_known_by_their_certificates(place):
    admitted = Admitted(place.folder)
    assert [admitted.party(der(place, name)) for name in "abc"] == ["a", "b", "c"]
    assert admitted.party(None) is None
    assert admitted.party(b"") is None
    place.join("d")
    assert admitted.party(der(place, "d")) is None


def test_cards_that_come_change_and_go_count_at_once(place):
    admitted = Admitted(place.folder)
    first = admitted.context()
    assert admitted.context() is first  # nothing has changed
    place.admit("d", place.join("d"))
    assert admitted.party(der(place, "d")) == "d"
    assert admitted.context() is not first
    old = der(place, "d")
    place.admit("d", place.join("d"))
    assert admitted.party(old) is None
    assert admitted.party(der(place, "d")) == "d"
    place.card("d").unlink()
    assert admitted.party(der(place, "d")) is None
    assert admitted.party(der(place, "a")) == "a"


def test_a_card_that_cannot_be_read_harms_no_other(place):
    admitted = Admitted(place.folder)
    for text in ("", "{", "[]", '{"name": "a", "sign": "", "node": ""}'):
        place.card("b").write_text(text)
        assert admitted.party(der(place, "b")) is None
        assert admitted.party(der(place, "a")) == "a"
    place.admit("b", "")  # of an older version
    assert admitted.party(der(place, "a")) == "a"
    place.admit("b", place.own("b")[0].read_text())
    assert admitted.party(der(place, "b")) == "b"


def test_only_certificates_of_the_cards_are_trusted(place):
    context = Admitted(place.folder).context()
    assert context.verify_mode is ssl.CERT_REQUIRED
    assert context.minimum_version is ssl.TLSVersion.TLSv1_3
    assert context.num_tickets == 0
    assert context.cert_store_stats() == {"x509": 3, "crl": 0, "x509_ca": 0}


def test_a_renewal_that_is_half_done_neither_stops_the_server_nor_keeps_a_removed_site_in(place):
    admitted, certificates = Admitted(place.folder), place.folder / "certificates"
    first, key = admitted.context(), (certificates / "server.key").read_bytes()
    issue_server(certificates, ["127.0.0.1"])
    new_key = (certificates / "server.key").read_bytes()
    (certificates / "server.key").write_bytes(key)
    assert admitted.context() is first
    place.card("a").unlink()
    assert admitted.party(der(place, "a")) is None
    assert admitted.party(der(place, "b")) == "b"
    (certificates / "server.key").unlink()
    assert admitted.context() is first
    (certificates / "server.key").write_bytes(new_key)
    assert admitted.context() is not first


def test_certificates_that_do_not_fit_are_told_at_the_start(place):
    (place.folder / "certificates" / "server.key").write_text("nonsense")
    with pytest.raises(UserError, match=r"put ca\.key beside them"):
        Admitted(place.folder).context()
