//! The guard as a program of its own, for embedders whose program has no hidden `__guard` command.

fn main() -> std::process::ExitCode {
    intendant_reconcilers::command::guard_main()
}
