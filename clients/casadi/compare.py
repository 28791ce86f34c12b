"""Ipopt with Luge in place of MA57, beside the linear solvers that CasADi's wheel has: same optimum, iterations, seconds.

    python compare.py --library libluge_hsl.so                     # small problems, and checks
    python compare.py --library libluge_hsl.so --large --rounds 3 --json results.json

Exits with 1 if a problem is not solved with Luge, its optimum is not that of MUMPS, or the iterations are not nearly as many.
"""

import argparse
import json
import os
import platform
import re
import sys
import tempfile
import time
from pathlib import Path

# SPRAL refuses to work without these, which are read when it is loaded.
os.environ.setdefault("OMP_CANCELLATION", "true")
os.environ.setdefault("OMP_PROC_BIND", "true")
os.environ.setdefault("OMP_NUM_THREADS", "1")

import casadi as ca  # noqa: E402
import numpy as np  # noqa: E402

from problems import PROBLEMS  # noqa: E402

# Objectives agree to this, relative to their magnitude or 1.
SAME_OPTIMUM = 1e-8

# Iterations may differ by that many beyond a tenth: near the end rounding decides.
MORE_ITERATIONS = 3

# What Ipopt's interfaces count of their solvers. That of MUMPS counts no factorizations, so what is compared is all that
# Ipopt spends on its linear systems: these, the residuals, and the steps of refinement.
PHASES = ["LinearSystemSymbolicFactorization", "LinearSystemFactorization", "LinearSystemBackSolve"]
ALL_OF_SYSTEMS = "PDSystemSolverTotal"

# Options of all runs: more digits than the objectives are compared in.
OPTIONS = {"tol": 1e-9, "max_iter": 1000, "sb": "yes", "print_timing_statistics": "yes"}


def options_of(solver, library):
    """What tells Ipopt of a linear solver."""
    if solver != "luge":
        return {"linear_solver": solver}
    # Without MC19 there is no scaling by Ipopt. The other two solvers have none by default.
    return {"linear_solver": "ma57", "hsllib": str(library), "linear_system_scaling": "none"}


def seconds(text):
    """Processor seconds of each task in what Ipopt prints of its times."""
    line = r"^\s*(\w+)\.*:\s*([\d.]+)\s*\(sys:\s*([\d.]+)"
    found = re.findall(line, text, re.MULTILINE)
    return {task: float(user) + float(system) for task, user, system in found}


class Program:
    """A problem, with derivatives that are made once for all solvers."""

    def __init__(self, problem):
        self.program = {name: problem[name] for name in ("x", "f", "g") if name in problem}
        self.bounds = {name: value for name, value in problem.items() if name not in self.program}
        self.derivatives = {}

    def size(self, name):
        return int(self.program[name].shape[0]) if name in self.program else 0

    def solver(self, options, log, limit):
        """Ipopt with these options, which prints to a file."""
        ipopt = {
            **OPTIONS,
            **options,
            "print_level": 0,
            "output_file": str(log),
            "file_print_level": 3,
            "max_wall_time": limit,
        }
        wrapped = {"print_time": False, "error_on_fail": False, "ipopt": ipopt, **self.derivatives}
        solver = ca.nlpsol("solver", "ipopt", self.program, wrapped)
        if not self.derivatives:
            names = {"grad_f": "nlp_grad_f", "jac_g": "nlp_jac_g", "hess_lag": "nlp_hess_l"}
            has = solver.get_function()
            self.derivatives = {key: solver.get_function(name) for key, name in names.items() if name in has}
        return solver

    def solve(self, solver, log):
        """One run: what became of it, and what it took."""
        start = time.perf_counter()
        found = solver(**self.bounds)
        wall = time.perf_counter() - start
        # Of the last run, if there are several.
        times = seconds(log.read_text())
        stats = solver.stats()
        return {
            "status": stats["return_status"],
            "iterations": stats["iter_count"],
            "objective": float(found["f"]),
            "path": [float(f) for f in stats["iterations"]["obj"]] if stats.get("iterations") else [],
            "linear_solver_seconds": times.get(ALL_OF_SYSTEMS, 0.0) + times.get(PHASES[0], 0.0),
            "phase_seconds": {task: times.get(task, 0.0) for task in PHASES},
            "seconds": wall,
        }


def distance(first, second):
    """How far objectives are apart, relative to their magnitude or 1."""
    return abs(first - second) / max(1.0, abs(first), abs(second))


def same_iterates(first, second):
    """How many iterates from the start have the same objective, to 6 digits."""
    for k, (a, b) in enumerate(zip(first, second)):
        if not distance(a, b) <= 1e-6:
            return k
    return min(len(first), len(second))


def is_solved(run):
    return run["status"] == "Solve_Succeeded"


def describe(run, reference):
    """A line of the table."""
    text = f"{run['iterations']:6d} {run['linear_solver_seconds']:9.3f} s  {run['objective']:.10e}"
    if not is_solved(run):
        text += f"  {run['status']}"
    elif reference is not None and run is not reference and is_solved(reference):
        text += f"  {distance(run['objective'], reference['objective']):.0e}"
        text += f"  {same_iterates(run['path'], reference['path'])} same"
    return text


def processor():
    """The name of the processor, and how many there are."""
    try:
        found = re.search(r"^model name\s*:\s*(.*)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
        name = found[1] if found else platform.machine()
    except OSError:
        name = platform.machine()
    return f"{name}, {os.cpu_count()} processors"


def about(args):
    """Where results come from."""
    return {
        "date": time.strftime("%Y-%m-%d"),
        "machine": processor(),
        "python": platform.python_version(),
        "casadi": ca.__version__,
        "numpy": np.__version__,
        "arguments": {name: getattr(args, name) for name in ("large", "solvers", "rounds", "limit", "option")},
        "options": OPTIONS,
    }


def compare(program, args, library, folder):
    """All solvers in turn, as many rounds as are wanted; of each the run with the fastest linear solver."""
    logs = {name: folder / f"{name}.txt" for name in args.solvers}
    solvers = {
        name: program.solver({**options_of(name, library), **dict(args.option)}, logs[name], args.limit)
        for name in args.solvers
    }
    runs = {}
    for turn in range(args.rounds):
        # Who goes first changes, so that a disturbed machine disturbs all.
        first = turn % len(args.solvers)
        for name in args.solvers[first:] + args.solvers[:first]:
            run = program.solve(solvers[name], logs[name])
            samples = runs[name]["samples"] if name in runs else []
            samples.append(run["linear_solver_seconds"])
            kept = runs.get(name, run)
            fastest = min(kept, run, key=lambda run: run["linear_solver_seconds"])
            runs[name] = {**fastest, "samples": samples}
    return runs


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--library", type=Path, required=True, help="libluge_hsl.so")
    parser.add_argument("--large", action="store_true", help="10^4 to 10^5 variables instead of small problems")
    parser.add_argument("--solvers", nargs="+", default=["luge", "mumps", "spral"])
    parser.add_argument("--only", nargs="+", default=[], help="words: problems with one of them in their name")
    parser.add_argument("--rounds", type=int, default=1, help="runs of each solver, in turn; the fastest counts")
    parser.add_argument("--limit", type=float, default=600.0, help="seconds of wall time for a run")
    parser.add_argument("--option", nargs=2, action="append", default=[], metavar=("NAME", "VALUE"), help="for Ipopt")
    parser.add_argument("--json", type=Path, help="where results go")
    args = parser.parse_args()

    library = args.library.resolve(strict=True)
    results, failures = [], []
    for name, make, small, large in PROBLEMS:
        size = large if args.large else small
        is_wanted = not args.only or any(word in name for word in args.only)
        if size is None or not is_wanted:
            continue
        program = Program(make(*size))
        with tempfile.TemporaryDirectory() as folder:
            runs = compare(program, args, library, Path(folder))
        reference = runs.get("mumps")
        print(f"{name}: {program.size('x')} variables, {program.size('g')} constraints")
        for solver in args.solvers:
            print(f"    {solver:6s} {describe(runs[solver], reference)}", flush=True)
        if "luge" in runs:
            run = runs["luge"]
            if not is_solved(run):
                failures.append(f"{name}: {run['status']}")
            elif reference is not None and is_solved(reference):
                apart = distance(run["objective"], reference["objective"])
                if not apart <= SAME_OPTIMUM:
                    failures.append(f"{name}: the objectives are {apart:.1e} apart")
                if run["iterations"] > 1.1 * reference["iterations"] + MORE_ITERATIONS:
                    failures.append(f"{name}: {run['iterations']} iterations, {reference['iterations']} with MUMPS")
        for run in runs.values():
            del run["path"]
        sizes = {"variables": program.size("x"), "constraints": program.size("g")}
        results.append({"problem": name, "size": list(size), **sizes, "runs": runs})

        if args.json:
            # After each problem: those to come may take long.
            args.json.write_text(json.dumps({**about(args), "results": results}, indent=1) + "\n")

    if not results:
        failures.append("no problem has these words in its name")
    for failure in failures:
        print(f"failed: {failure}", file=sys.stderr)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
