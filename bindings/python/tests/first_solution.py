"""What a new user runs first. `cargo xtask python-test` times it together with the installation."""

import luge
import numpy as np
import scipy.sparse as sp

n = 1000
a = sp.diags_array([-1.0, 2.1, -1.0], offsets=[-1, 0, 1], shape=(n, n), format="csr")
x = luge.spsolve(a, np.ones(n))
assert np.abs(a @ x - 1).max() < 1e-12
print(f"luge {luge.__version__}: solved {n} equations")
