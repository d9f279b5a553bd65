//! The scripts on a real Redis: against the twin, in line, under trouble.

mod house;
mod line;
mod quota;
mod server;
mod trap;
mod trouble;
mod twin;
