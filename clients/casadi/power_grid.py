"""AC optimal power flow in polar coordinates.

The cases of 9 and 14 buses are public test data, in the columns that most programs for power flow use: the 9-bus system of
J. H. Chow, and the IEEE 14-bus system of the American Electric Power network of 1962 (Power Systems Test Case Archive,
University of Washington), both with the costs and limits that are usual for them. A third one is generated: a rectangular
grid of any size.
"""

from dataclasses import dataclass

import casadi as ca
import numpy as np


@dataclass
class Grid:
    """Buses, branches and generators; powers in per unit of 100 MVA, angles in radians, buses counted from 0."""

    load: np.ndarray  # active, reactive power that each bus draws
    shunt: np.ndarray  # conductance, susceptance of each bus
    voltage: np.ndarray  # least, most magnitude at each bus
    ends: np.ndarray  # first and second bus of each branch
    series: np.ndarray  # resistance, reactance of each branch
    charging: np.ndarray  # susceptance of each branch
    tap: np.ndarray  # ratio of the transformer at the first bus, 1 of a line
    rating: np.ndarray  # most apparent power of each branch, infinite if there is no limit
    at: np.ndarray  # bus of each generator
    active: np.ndarray  # least, most active power of each generator
    reactive: np.ndarray  # least, most reactive power
    cost: np.ndarray  # c2, c1, c0 of each: c2 P^2 + c1 P + c0 in dollars an hour, P in MW


MVA = 100.0


def case9():
    """The 9-bus system of Chow."""
    load = np.zeros((9, 2))
    load[[4, 6, 8]] = np.array([[90, 30], [100, 35], [125, 50]]) / MVA
    branches = np.array(
        [
            # from, to, r, x, b, rating
            [1, 4, 0, 0.0576, 0, 250],
            [4, 5, 0.017, 0.092, 0.158, 250],
            [5, 6, 0.039, 0.17, 0.358, 150],
            [3, 6, 0, 0.0586, 0, 300],
            [6, 7, 0.0119, 0.1008, 0.209, 150],
            [7, 8, 0.0085, 0.072, 0.149, 250],
            [8, 2, 0, 0.0625, 0, 250],
            [8, 9, 0.032, 0.161, 0.306, 250],
            [9, 4, 0.01, 0.085, 0.176, 250],
        ]
    )
    return Grid(
        load=load,
        shunt=np.zeros((9, 2)),
        voltage=np.tile([0.9, 1.1], (9, 1)),
        ends=branches[:, :2].astype(int) - 1,
        series=branches[:, 2:4],
        charging=branches[:, 4],
        tap=np.ones(9),
        rating=branches[:, 5] / MVA,
        at=np.array([0, 1, 2]),
        active=np.array([[10, 250], [10, 300], [10, 270]]) / MVA,
        reactive=np.tile([-300, 300], (3, 1)) / MVA,
        cost=np.array([[0.11, 5, 150], [0.085, 1.2, 600], [0.1225, 1, 335]]),
    )


def case14():
    """The IEEE 14-bus system."""
    load = np.array(
        [
            [0, 0],
            [21.7, 12.7],
            [94.2, 19],
            [47.8, -3.9],
            [7.6, 1.6],
            [11.2, 7.5],
            [0, 0],
            [0, 0],
            [29.5, 16.6],
            [9, 5.8],
            [3.5, 1.8],
            [6.1, 1.6],
            [13.5, 5.8],
            [14.9, 5],
        ]
    )
    shunt = np.zeros((14, 2))
    shunt[8, 1] = 19
    branches = np.array(
        [
            # from, to, r, x, b, tap
            [1, 2, 0.01938, 0.05917, 0.0528, 1],
            [1, 5, 0.05403, 0.22304, 0.0492, 1],
            [2, 3, 0.04699, 0.19797, 0.0438, 1],
            [2, 4, 0.05811, 0.17632, 0.034, 1],
            [2, 5, 0.05695, 0.17388, 0.0346, 1],
            [3, 4, 0.06701, 0.17103, 0.0128, 1],
            [4, 5, 0.01335, 0.04211, 0, 1],
            [4, 7, 0, 0.20912, 0, 0.978],
            [4, 9, 0, 0.55618, 0, 0.969],
            [5, 6, 0, 0.25202, 0, 0.932],
            [6, 11, 0.09498, 0.1989, 0, 1],
            [6, 12, 0.12291, 0.25581, 0, 1],
            [6, 13, 0.06615, 0.13027, 0, 1],
            [7, 8, 0, 0.17615, 0, 1],
            [7, 9, 0, 0.11001, 0, 1],
            [9, 10, 0.03181, 0.0845, 0, 1],
            [9, 14, 0.12711, 0.27038, 0, 1],
            [10, 11, 0.08205, 0.19207, 0, 1],
            [12, 13, 0.22092, 0.19988, 0, 1],
            [13, 14, 0.17093, 0.34802, 0, 1],
        ]
    )
    return Grid(
        load=load / MVA,
        shunt=shunt / MVA,
        voltage=np.tile([0.94, 1.06], (14, 1)),
        ends=branches[:, :2].astype(int) - 1,
        series=branches[:, 2:4],
        charging=branches[:, 4],
        tap=branches[:, 5],
        rating=np.full(len(branches), np.inf),
        at=np.array([0, 1, 2, 5, 7]),
        active=np.array([[0, 332.4], [0, 140], [0, 100], [0, 100], [0, 100]]) / MVA,
        reactive=np.array([[0, 10], [-40, 50], [0, 40], [-6, 24], [-6, 24]]) / MVA,
        cost=np.array(
            [
                [0.0430292599, 20, 0],
                [0.25, 20, 0],
                [0.01, 40, 0],
                [0.01, 40, 0],
                [0.01, 40, 0],
            ]
        ),
    )


def rectangle(rows, columns, seed=1):
    """A grid of `rows` times `columns` buses, each joined to its neighbours; every seventh bus has a generator."""
    draw = np.random.default_rng(seed)
    number = np.arange(rows * columns).reshape(rows, columns)
    ends = np.concatenate(
        [
            np.stack([number[:, :-1].ravel(), number[:, 1:].ravel()], axis=1),
            np.stack([number[:-1].ravel(), number[1:].ravel()], axis=1),
        ]
    )
    n, m = rows * columns, len(ends)
    reactance = draw.uniform(0.02, 0.08, m)
    at = np.arange(0, n, 7)
    load = draw.uniform(0.02, 0.12, (n, 2)) * [1, 0.3]
    most = draw.uniform(0.8, 1.6, len(at)) * 2 * load[:, 0].sum() / len(at)
    zero = np.zeros_like(most)
    return Grid(
        load=load,
        shunt=np.zeros((n, 2)),
        voltage=np.tile([0.92, 1.08], (n, 1)),
        ends=ends,
        series=np.stack([reactance * draw.uniform(0.1, 0.4, m), reactance], axis=1),
        charging=draw.uniform(0, 0.02, m),
        tap=np.ones(m),
        rating=np.where(draw.random(m) < 0.3, 1.5, np.inf),
        at=at,
        active=np.stack([zero, most], axis=1),
        reactive=np.stack([-most, most], axis=1),
        cost=np.stack(
            [draw.uniform(0.01, 0.1, len(at)), draw.uniform(10, 40, len(at)), zero], axis=1
        ),
    )


def optimal_power_flow(grid):
    """Cheapest generation within the limits: variables are angles, magnitudes, active and reactive generation."""
    n, m, g = len(grid.load), len(grid.ends), len(grid.at)
    angle, size = ca.SX.sym("angle", n), ca.SX.sym("size", n)
    p, q = ca.SX.sym("p", g), ca.SX.sym("q", g)

    # The admittances of a branch with an ideal transformer at its first bus.
    y = 1 / (grid.series[:, 0] + 1j * grid.series[:, 1])
    own = y + 0.5j * grid.charging
    first, second = grid.ends[:, 0].tolist(), grid.ends[:, 1].tolist()
    difference = angle[first] - angle[second]
    product = size[first] * size[second]

    def power(at, self_admittance, mutual, difference):
        """Active and reactive power into branches at one end: of V_i conj(y_ii V_i + y_ij V_j)."""
        square = size[at] ** 2
        cosine, sine = ca.cos(difference), ca.sin(difference)
        g_self, b_self = ca.DM(self_admittance.real), ca.DM(self_admittance.imag)
        g_mutual, b_mutual = ca.DM(mutual.real), ca.DM(mutual.imag)
        active = g_self * square + product * (g_mutual * cosine + b_mutual * sine)
        reactive = -b_self * square + product * (g_mutual * sine - b_mutual * cosine)
        return active, reactive

    p_first, q_first = power(first, own / grid.tap**2, -y / grid.tap, difference)
    p_second, q_second = power(second, own, -y / grid.tap, -difference)

    def incidence(rows, count):
        return ca.DM.triplet(rows, list(range(count)), ca.DM.ones(count), n, count)

    at_first, at_second = incidence(first, m), incidence(second, m)
    at_generator = incidence(grid.at.tolist(), g)
    square = size**2
    balance = [
        ca.mtimes(at_first, p_first)
        + ca.mtimes(at_second, p_second)
        + ca.DM(grid.shunt[:, 0]) * square
        - ca.mtimes(at_generator, p)
        + ca.DM(grid.load[:, 0]),
        ca.mtimes(at_first, q_first)
        + ca.mtimes(at_second, q_second)
        - ca.DM(grid.shunt[:, 1]) * square
        - ca.mtimes(at_generator, q)
        + ca.DM(grid.load[:, 1]),
    ]
    limited = np.flatnonzero(np.isfinite(grid.rating)).tolist()
    flows = [
        active[limited] ** 2 + reactive[limited] ** 2
        for active, reactive in [(p_first, q_first), (p_second, q_second)]
    ]
    most = np.tile(grid.rating[limited] ** 2, 2)

    megawatts = MVA * p
    c2, c1, c0 = (ca.DM(c) for c in grid.cost.T)
    # The angle of the first bus is what the others are relative to.
    turn = np.full(n, np.pi)
    turn[0] = 0
    return {
        "x": ca.vertcat(angle, size, p, q),
        "f": ca.sum1(c2 * megawatts**2 + c1 * megawatts + c0),
        "g": ca.vertcat(*balance, *flows),
        "lbx": np.concatenate([-turn, grid.voltage[:, 0], grid.active[:, 0], grid.reactive[:, 0]]),
        "ubx": np.concatenate([turn, grid.voltage[:, 1], grid.active[:, 1], grid.reactive[:, 1]]),
        "lbg": np.concatenate([np.zeros(2 * n), np.full(len(most), -np.inf)]),
        "ubg": np.concatenate([np.zeros(2 * n), most]),
        "x0": np.concatenate(
            [np.zeros(n), np.ones(n), grid.active.mean(axis=1), grid.reactive.mean(axis=1)]
        ),
    }
