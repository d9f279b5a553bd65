//! Resident memory of a process.
//!
//! Transparent huge pages round each corner of a heap up to 2 MiB: an idle door took 18 MiB for 3 MiB in use
//! (docs/performance.md). The allocator is built not to ask for them; a kernel set to `always` gives them unasked.

/// Asks the kernel for pages of the usual size from now on. First thing of a process, before its heap grows.
pub fn use_small_pages() {
    if let Err(error) = nix::sys::prctl::set_thp_disable(true) {
        tracing::debug!(%error, "transparent huge pages stay on: this process takes more memory than it uses");
    }
}
