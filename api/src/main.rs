//! `penstock-api`: the front door and the operator's commands.

use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    penstock_api::cli::run()
}
