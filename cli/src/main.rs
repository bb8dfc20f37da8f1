//! The intendant program.

use std::process::ExitCode;

fn main() -> ExitCode {
    // Before anything else: the guard must run on one thread and owns its standard input.
    let hidden = std::env::args_os().nth(1);
    if hidden.is_some_and(|word| word == intendant_reconcilers::command::GUARD_COMMAND) {
        return intendant_reconcilers::command::guard_main();
    }
    #[cfg(feature = "failpoints")]
    intendant_journal::disk::arm_from_environment();
    intendant_cli::main()
}
