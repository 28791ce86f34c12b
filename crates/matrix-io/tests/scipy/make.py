"""Writes the files of this folder by SciPy and NumPy, and beside each matrix what it is, as Matrix Market.

    pip install numpy scipy
    python make.py

The files here are of NumPy 2.4.6 and SciPy 1.17.1. Nothing is random.
"""

import numpy as np
import scipy.io
import scipy.sparse as sp

M, N = 6, 4


def dense(dtype):
    """A matrix with about half of its entries, of both signs where the type has signs."""
    i, j = np.meshgrid(np.arange(M), np.arange(N), indexing="ij")
    a = np.where((i * 3 + j * 5) % 4 < 2, (i - 2) * 7 + j + 0.25, 0)
    if np.issubdtype(dtype, np.complexfloating):
        return (a + 1j * np.where(a != 0, j - 1.5, 0)).astype(dtype)
    if np.issubdtype(dtype, np.unsignedinteger) or dtype == np.bool_:
        a = np.abs(a)
    return a.astype(dtype)


def save(name, matrix, **options):
    sp.save_npz(f"{name}.npz", matrix, **options)
    if matrix.format == "csr":
        matrix.prune()
    golden = sp.coo_array(matrix)
    if golden.dtype.kind in "biu":
        golden = golden.astype(np.int64)
    else:
        golden = golden.astype(np.complex128 if golden.dtype.kind == "c" else np.float64)
    # Symmetry is not looked for: the readers are to give the same header.
    scipy.io.mmwrite(f"{name}.mtx", golden, symmetry="general", precision=17)


def main():
    a = dense(np.float64)
    save("csr", sp.csr_matrix(a))
    save("csr_stored", sp.csr_matrix(a), compressed=False)
    save("csr_array", sp.csr_array(a))
    save("csc", sp.csc_matrix(a))
    save("csc_array", sp.csc_array(a))
    save("coo", sp.coo_matrix(a))
    save("coo_array", sp.coo_array(a))
    save("dia", sp.dia_array(a))
    save("bsr", sp.bsr_array(a, blocksize=(3, 2)))
    for name in ["float32", "complex64", "complex128", "int8", "int64", "uint16", "bool"]:
        save(name, sp.csr_array(dense(np.dtype(name).type)))
    wide = sp.csr_array(a)
    wide.indices, wide.indptr = wide.indices.astype(np.int64), wide.indptr.astype(np.int64)
    save("indices64", wide)
    # SciPy does not take numbers whose highest byte comes first, NumPy saves them.
    rows = sp.csr_array(a)
    arrays = {"shape": rows.shape, "data": rows.data, "indices": rows.indices, "indptr": rows.indptr}
    swapped = {key: np.asarray(value).astype(np.asarray(value).dtype.newbyteorder(">")) for key, value in arrays.items()}
    np.savez("big_endian.npz", format="csr", **swapped)
    scipy.io.mmwrite("big_endian.mtx", rows, symmetry="general", precision=17)
    save("empty", sp.csr_array((3, 0)))
    # Entries twice, and room behind the last pointer.
    twice = sp.coo_array(([1.0, 2.0, 4.0], ([0, 0, 1], [1, 1, 0])), shape=(2, 2))
    save("duplicates", twice)
    room = sp.csr_array((2, 2))
    room.indptr, room.indices = np.array([0, 1, 2], np.int32), np.array([1, 0, 1], np.int32)
    room.data = np.array([5.0, 6.0, 7.0])
    save("room", room)
    # Arrays of two columns need not lie row by row.
    order = sp.coo_array(a)
    coords = np.asfortranarray(np.array(order.coords))
    np.savez("coords.npz", format=b"coo", shape=order.shape, data=order.data, coords=coords, _is_array=True)
    scipy.io.mmwrite("coords.mtx", order, symmetry="general", precision=17)

    np.save("vector.npy", np.array([1.5, -2.0, 3.25]))
    np.save("columns.npy", np.asfortranarray(np.array([[1.0, 4.0], [2.0, 5.0], [3.0, 6.0]])))
    np.save("rows.npy", np.array([[1.0, 4.0], [2.0, 5.0], [3.0, 6.0]]))
    np.save("float32.npy", np.array([0.1, 0.2], np.float32))
    np.save("int32.npy", np.array([[1, -2]], np.int32))
    np.save("complex.npy", np.array([1 + 2j]))
    np.save("cube.npy", np.zeros((1, 1, 1)))
    np.save("words.npy", np.array(["a"]))
    np.save("record.npy", np.zeros(1, dtype=[("x", "f8")]))
    np.savez("no_matrix.npz", x=np.zeros(3))

    # Harwell-Boeing by SciPy's own writer, whose numbers are narrower than its format says: seen where they are negative.
    hb = sp.csc_matrix(-a)
    scipy.io.hb_write("harwell.rua", hb)
    scipy.io.mmwrite("harwell.mtx", hb, symmetry="general", precision=17)


if __name__ == "__main__":
    main()
