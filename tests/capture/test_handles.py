"""Handles of several branches brought to the columns of one row."""

from lineage_service.capture.handles import Handle, Role, concatenate_handles, merge_handles, source_space

A, B = Handle(source_space("a")), Handle(source_space("b"))
PEER = Handle(source_space("a"), Role.PEER)


def test_the_same_space_and_role_share_a_column():
    merged = merge_handles([(A, B), (B,), (A, A, PEER)])
    assert merged.handles == (A, B, A, PEER)
    assert merged.branches == ((0, 1, None, None), (None, 0, None, None), (0, None, 1, 2))


def test_branches_in_columns_of_their_own():
    merged = concatenate_handles([(A, B), (A,)])
    assert merged.handles == (A, B, A)
    assert merged.branches == ((0, 1, None), (None, None, 0))


def test_a_handle_as_text_tells_its_role_unless_rows_are_themselves():
    assert [str(each) for each in (A, PEER)] == ["source:a", "source:a (peer)"]
