"""Nonlinear programs of several kinds, each in any size: what CasADi's `nlpsol` takes, with bounds and a start.

min f(x) subject to lbg <= g(x) <= ubg and lbx <= x <= ubx, from x0.
"""

import casadi as ca
import numpy as np

import power_grid


def rosenbrock(n):
    """The extended function of Rosenbrock (J. J. Moré, B. S. Garbow, K. E. Hillstrom, 1981), with valleys that are joined."""
    x = ca.SX.sym("x", 2 * n)
    first, second = x[:n], x[n:]
    valleys = 100 * (second - first**2) ** 2 + (1 - first) ** 2
    joints = (second[1:] - second[:-1]) ** 2
    x0 = np.concatenate([np.linspace(-1.2, 2, n), np.ones(n)])
    return {"x": x, "f": ca.sum1(valleys) + 0.1 * ca.sum1(joints), "x0": x0}


def chained(n):
    """The chained function of Rosenbrock with trigonometric-exponential constraints: problem 5.1 of L. Lukšan and J. Vlček,
    "Sparse and partially separable test problems for unconstrained and equality constrained optimization", 1999."""
    x = ca.SX.sym("x", n)
    steps = 100 * (x[:-1] ** 2 - x[1:]) ** 2 + (x[:-1] - 1) ** 2
    inner, left, right = x[1:-1], x[:-2], x[2:]
    g = 3 * inner**3 + 2 * right - 5 + ca.sin(inner - right) * ca.sin(inner + right)
    g = g + 4 * inner - left * ca.exp(left - inner) - 3
    zeros = np.zeros(n - 2)
    x0 = np.where(np.arange(n) % 2 == 0, -1.2, 1.0)
    return {"x": x, "f": ca.sum1(steps), "g": g, "lbg": zeros, "ubg": zeros, "x0": x0}


def collocation(intervals):
    """Optimal control of Van der Pol's oscillator by collocation at Radau points, three a step, with a bounded control."""
    points = np.append(0, ca.collocation_points(3, "radau"))
    derivative = np.zeros((4, 4))
    for j in range(4):
        others = np.delete(points, j)
        basis = np.poly1d(others, r=True) / np.prod(points[j] - others)
        derivative[:, j] = np.polyder(basis)(points)
    h = 10 / intervals

    control = ca.SX.sym("u", 1, intervals)
    start = ca.SX.sym("s", 2, intervals + 1)
    inside = ca.SX.sym("c", 2, 3 * intervals)
    step = [start[:, :-1]] + [inside[:, k::3] for k in range(3)]

    def slope(state):
        x1, x2 = state[0, :], state[1, :]
        return ca.vertcat((1 - x2**2) * x1 - x2 + control, x1)

    def cost(state):
        return state[0, :] ** 2 + state[1, :] ** 2 + control**2

    g = []
    for k in range(1, 4):
        of_polynomial = sum(float(derivative[k, j]) * step[j] for j in range(4))
        g.append(h * slope(step[k]) - of_polynomial)
    g.append(start[:, 1:] - step[3])
    # The weights of Radau's quadrature are the last row of the inverse of the derivatives inside.
    weights = np.linalg.inv(derivative[1:, 1:])[-1]
    f = h * sum(float(weights[k]) * ca.sum2(cost(step[k + 1])) for k in range(3))
    g = ca.vertcat(*[ca.vec(part) for part in g])
    x = ca.vertcat(ca.vec(control), ca.vec(start), ca.vec(inside))
    least = np.full(x.shape[0], -np.inf)
    most = np.full(x.shape[0], np.inf)
    least[:intervals], most[:intervals] = -1, 1
    # x1 has a bound on the path that is active.
    least[intervals::2] = -0.25
    least[intervals : intervals + 2] = most[intervals : intervals + 2] = [0, 1]
    zeros = np.zeros(g.shape[0])
    return {"x": x, "f": f, "g": g, "lbx": least, "ubx": most, "lbg": zeros, "ubg": zeros}


def catenary(intervals):
    """The hanging chain (COPS): least potential energy of a chain of length 4 between two points."""
    n, length, left, right = intervals, 4.0, 1.0, 3.0
    h = 1 / n
    x, u = ca.SX.sym("x", n + 1), ca.SX.sym("u", n + 1)
    speed = ca.sqrt(1 + u**2)
    mean = lambda v: (v[1:] + v[:-1]) / 2
    f = h * ca.sum1(mean(x * speed))
    g = ca.vertcat(x[1:] - x[:-1] - h * mean(u), h * ca.sum1(mean(speed)) - length, x[0], x[-1])
    bounds = np.concatenate([np.zeros(n), [0, left, right]])
    t = np.linspace(0, 1, n + 1)
    # A parabola through both ends that hangs in between.
    x0 = np.concatenate([4 * 2 * t * (t / 2 - 0.25) + left, 4 * 2 * (t - 0.25)])
    return {"x": ca.vertcat(x, u), "f": f, "g": g, "lbg": bounds, "ubg": bounds, "x0": x0}


def laplace(side):
    """-h^2 times the Laplacian on the inner points of a square with zero boundary values."""
    line = ca.DM(ca.Sparsity.band(side, 0), 2) - ca.DM(ca.Sparsity.band(side, 1), 1)
    line = line - ca.DM(ca.Sparsity.band(side, -1), 1)
    one = ca.DM.eye(side)
    return ca.kron(one, line) + ca.kron(line, one)


def heat_control(side):
    """Distributed control of -laplace(y) + y^3 - y = u on a square, with bounds of u, and of y from above (after
    H. Maurer and H. D. Mittelmann, "Optimization techniques for solving elliptic control problems", 2001)."""
    n, h = side * side, 1 / (side + 1)
    y, u = ca.SX.sym("y", n), ca.SX.sym("u", n)
    t = np.linspace(h, 1 - h, side)
    a, b = np.meshgrid(t, t)
    wanted = (1 + 2 * (a * (a - 1) + b * (b - 1))).ravel()
    g = ca.mtimes(laplace(side), y) + h**2 * (y**3 - y - u)
    f = h**2 / 2 * (ca.sumsqr(y - wanted) + 1e-3 * ca.sumsqr(u))
    return {
        "x": ca.vertcat(y, u),
        "f": f,
        "g": g,
        "lbx": np.concatenate([np.full(n, -np.inf), np.full(n, 1.5)]),
        "ubx": np.concatenate([np.full(n, 0.185), np.full(n, 4.5)]),
        "lbg": np.zeros(n),
        "ubg": np.zeros(n),
    }


def minimal_surface(side):
    """The smallest surface over a square above an obstacle (COPS), boundary values 1 - (2 x - 1)^2 on two edges."""
    n, h = side + 2, 1 / (side + 1)
    t = np.linspace(0, 1, n)
    v = ca.SX.sym("v", n * n)
    at = np.arange(n * n).reshape(n, n)
    corner, right, up = (at[:-1, :-1].ravel(), at[1:, :-1].ravel(), at[:-1, 1:].ravel())
    opposite = at[1:, 1:].ravel()
    area = lambda a, b, c: h**2 / 2 * ca.sqrt(1 + ((v[b] - v[a]) / h) ** 2 + ((v[c] - v[a]) / h) ** 2)
    lists = [indices.tolist() for indices in (corner, right, up, opposite)]
    corner, right, up, opposite = lists
    f = ca.sum1(area(corner, right, up) + area(opposite, up, right))
    x, y = np.meshgrid(t, t, indexing="ij")
    edge = np.where((y == 0) | (y == 1), 1 - (2 * x - 1) ** 2, 0.0)
    is_edge = (x == 0) | (x == 1) | (y == 0) | (y == 1)
    obstacle = np.where((abs(x - 0.5) <= 0.25) & (abs(y - 0.5) <= 0.25), 1.0, 0.0)
    least = np.where(is_edge, edge, obstacle).ravel()
    most = np.where(is_edge, edge, np.inf).ravel()
    return {"x": v, "f": f, "lbx": least, "ubx": most, "x0": (1 - (2 * x - 1) ** 2).ravel()}


def linkage(links):
    """Rigid links of length 1 between two points, hanging as low as they can, from a start that is far from feasible: all
    joints on a line ten times as long."""
    x, y = ca.SX.sym("x", links + 1), ca.SX.sym("y", links + 1)
    span = 0.6 * links
    g = ca.vertcat((x[1:] - x[:-1]) ** 2 + (y[1:] - y[:-1]) ** 2 - 1)
    t = np.linspace(0, 1, links + 1)
    least, most = np.full((2, links + 1), -np.inf), np.full((2, links + 1), np.inf)
    least[:, 0] = most[:, 0] = 0
    least[:, -1] = most[:, -1] = [span, 0]
    x0 = np.concatenate([10 * span * t, -10 * span * t * (1 - t)])
    zeros = np.zeros(links)
    return {
        "x": ca.vertcat(x, y),
        "f": ca.sum1(y) / links,
        "g": g,
        "lbx": least.ravel(),
        "ubx": most.ravel(),
        "lbg": zeros,
        "ubg": zeros,
        "x0": x0,
    }


def dependent(n):
    """The nearest points on spheres, a chain of them, every constraint given twice and once in a sum with the next: the
    Jacobian has not full rank anywhere."""
    x = ca.SX.sym("x", n, 3)
    sphere = x[:, 0] ** 2 + x[:, 1] ** 2 + x[:, 2] ** 2 - 3
    g = ca.vertcat(sphere, sphere, sphere[1:] + sphere[:-1])
    wanted = np.array([2.0, 0.5, 1.0])
    f = sum(ca.sumsqr(x[:, k] - wanted[k]) for k in range(3))
    f = f + 0.1 * ca.sumsqr(x[1:, 0] - x[:-1, 0])
    zeros = np.zeros(g.shape[0])
    x0 = np.concatenate([np.full(n, 0.5), np.linspace(0.5, 1.5, n), np.full(n, 1.0)])
    return {"x": ca.vec(x), "f": f, "g": g, "lbg": zeros, "ubg": zeros, "x0": x0}


def indefinite_program(n):
    """A quadratic program with an indefinite Hessian, boxes and sums: the inertia has to be corrected."""
    draw = np.random.default_rng(5)
    x = ca.SX.sym("x", n)
    weights = ca.DM(draw.uniform(-1, 1, n))
    f = 0.5 * ca.sum1(weights * x**2) + ca.sum1(x[1:] * x[:-1]) + ca.sum1(ca.DM(draw.normal(size=n)) * x)
    g = x[3:] + x[2:-1] - x[1:-2] + 0.5 * x[:-3]
    g = g[::4]
    m = g.shape[0]
    return {
        "x": x,
        "f": f,
        "g": g,
        "lbx": np.full(n, -1.0),
        "ubx": np.full(n, 1.0),
        "lbg": np.full(m, -0.2),
        "ubg": np.full(m, 0.3),
    }


def of_grid(make):
    """The optimal power flow of a grid of any size."""
    return lambda *size: power_grid.optimal_power_flow(make(*size))


# Name, problem, arguments of a small and of a large one.
PROBLEMS = [
    ("rosenbrock", rosenbrock, (100,), (50_000,)),
    ("chained", chained, (300,), (50_000,)),
    ("collocation", collocation, (40,), (10_000,)),
    ("catenary", catenary, (50,), (20_000,)),
    ("heat control", heat_control, (12,), (120,)),
    ("minimal surface", minimal_surface, (14,), (120,)),
    ("linkage", linkage, (20,), None),
    ("dependent", dependent, (40,), (1_000,)),
    ("indefinite program", indefinite_program, (60,), (4_000,)),
    ("power flow, 9 buses", of_grid(power_grid.case9), (), None),
    ("power flow, 14 buses", of_grid(power_grid.case14), (), None),
    ("power flow, rectangle", of_grid(power_grid.rectangle), (6, 8), (80, 100)),
]
