//! The example `pipeline`, run as people run it: what it counts, what it says, and how it ends.
#![forbid(unsafe_code)]

mod counts;
mod endings;
mod options;
mod run;
