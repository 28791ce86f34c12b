"""Pictures."""

import re
import xml.etree.ElementTree as ET

import luge
import numpy as np
import pytest
import scipy.sparse as sp
from matrices import scattered


def cells(picture):
    root = ET.fromstring(picture._repr_svg_())
    (group,) = (child for child in root if child.tag.endswith("g"))
    return {(int(r.get("y")), int(r.get("x"))): float(r.get("opacity")) for r in group}


@pytest.mark.parametrize("layout", ["csr", "csc", "coo"])
def test_a_cell_for_each_entry(layout):
    a = sp.csr_array([[1.0, 0, 2, 0], [0, 0, 3, 0]]).asformat(layout)
    assert set(cells(luge.spy(a))) == {(0, 0), (0, 2), (1, 2)}


def test_large_matrices_are_counted_in_cells(tmp_path):
    a = scattered((1000, 500), 0.01)
    a = sp.vstack([a, sp.csr_array(np.ones((10, 500)))])
    picture = luge.spy(a, cells=101)
    found = cells(picture)
    assert max(y for y, _ in found) == 100 and max(x for _, x in found) == 49
    assert all(found[100, x] == 1.0 for x in range(50)), "full cells are black"
    assert len(re.findall("<rect", picture.svg)) == len(found) + 1
    picture.save(tmp_path / "spy.svg")
    assert (tmp_path / "spy.svg").read_text() == picture.svg
    assert cells(luge.spy(sp.csr_array((3, 3)))) == {}
