//! The command `luge`: solves, analyzes and describes Matrix Market files.

mod cli;

fn main() -> std::process::ExitCode {
    cli::main()
}
