//! Several ranks that are processes: `mpirun` starts this program, `cargo xtask mpi-test` starts that.
//!
//! | argument | what happens |
//! |---|---|
//! | `check` | what the tests with threads check; all ranks succeed |
//! | `leave` | rank 1 ends early; the others name it, and succeed |
//! | `panic` | rank 1 panics; MPI ends the others |
//! | `kill` | rank 1 is killed; `mpirun` ends the others |
//! | none | nothing is tested, and it says so: `cargo test` has no `mpirun` |

mod ranks;

use std::process::Command;

use luge::distributed::{Mpi, RankErrorKind, Ranks};
use luge::{CpuEngine, Options};
use luge_testkit::generators::applications::convection_diffusion_3d;

fn main() {
    let Some(how) = std::env::args().nth(1) else {
        eprintln!("SKIPPED: ranks of MPI, which `cargo xtask mpi-test` starts");
        return;
    };
    let ranks = Ranks::new(Mpi::start().unwrap())
        .unwrap()
        .least_seconds(0.0);
    if how == "check" {
        ranks::results_are_those_of_one_rank(&ranks);
        ranks::patterns_are_those_of_one_rank(&ranks);
        ranks::failures_are_those_of_all(&ranks);
        ranks::rows_come_together(&ranks);
        println!("rank {} of {} has checked all", ranks.rank(), ranks.size());
        return;
    }
    let a = convection_diffusion_3d(6, 6, 5, 2.0);
    let options = Options::default().engine(CpuEngine::Fronts);
    let analysis = ranks.solver(options).unwrap().analyze(&a).unwrap();
    let factors = analysis.factorize(&a).unwrap();
    if ranks.rank() == 1 {
        match how.as_str() {
            "leave" => return,
            "panic" => panic!("on purpose"),
            "kill" => {
                let number = std::process::id().to_string();
                Command::new("kill").args(["-9", &number]).status().unwrap();
            }
            other => panic!("unknown argument {other:?}"),
        }
    }
    let error = factors.solve(&vec![1.0; a.rows()]).unwrap_err();
    assert_eq!((error.rank, error.kind), (1, RankErrorKind::Communication));
    println!("rank {}: {error}", ranks.rank());
}
