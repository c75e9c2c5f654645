"""Notes that carry a digest: no changed byte of one is believed."""

import json

import pytest

from lineage_service.audit.erasure.correction_values import VALUES, load_correction_values, save_correction_values
from lineage_service.errors import LineageError
from lineage_service.store.layout import PUBLICATIONS, HomeLayout
from lineage_service.store.notes import note_body, note_text
from lineage_service.store.publications import noted_publications

BODY = {"city": "Köln", "street": None, "number": "12"}


def test_every_changed_bit_is_noticed():
    raw = note_text(BODY).encode()
    assert note_body(raw.decode()) == BODY
    for place in range(len(raw)):
        for bit in range(8):
            damaged = bytearray(raw)
            damaged[place] ^= 1 << bit
            try:
                found = note_body(damaged.decode())
            except ValueError:  # also of text that is no UTF-8
                continue
            assert found == BODY, (place, bit)


def test_a_note_of_an_earlier_version_is_read():
    assert note_body(json.dumps(BODY)) == BODY


def test_damaged_values_of_a_rectification_are_not_applied(tmp_path):
    home = HomeLayout(tmp_path)
    save_correction_values(home, "p1", BODY)
    assert load_correction_values(home, "p1") == BODY
    path = tmp_path / "plans" / "p1" / VALUES
    path.write_text(path.read_text().replace('"12"', '"13"'))
    with pytest.raises(LineageError, match=r"plans/p1/values\.json', are damaged"):
        load_correction_values(home, "p1")


def test_a_damaged_place_is_not_published_to(tmp_path):
    folder = HomeLayout(tmp_path).run_folder("r1")
    folder.path.mkdir(parents=True)
    body = [{"output": "o", "step": "o", "target": "/a/b", "waiting": "/a/.b.1.new"}]
    (folder.path / PUBLICATIONS).write_text(note_text(body))
    assert [str(each.target) for each in noted_publications(folder)] == ["/a/b"]
    (folder.path / PUBLICATIONS).write_text(note_text(body).replace("/a/b", "/a/c"))
    with pytest.raises(LineageError, match=r"runs/r1/publications\.json"):
        noted_publications(folder)
