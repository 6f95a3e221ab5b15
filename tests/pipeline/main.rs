//! The example `pipeline`, run as people run it: what it counts, what it says, how it ends. And its modules alone: their
//! own tests run here, since Cargo builds an example either for running or for testing.
#![forbid(unsafe_code)]

mod counts;
mod endings;
mod options;
mod run;

#[allow(dead_code)]
#[path = "../../examples/pipeline/args.rs"]
mod args;
#[allow(dead_code)]
#[path = "../../examples/pipeline/flights.rs"]
mod flights;
#[allow(dead_code)]
#[path = "../../examples/pipeline/flow.rs"]
mod flow;
#[allow(dead_code)]
#[path = "../../examples/pipeline/input.rs"]
mod input;
#[allow(dead_code)]
#[path = "../../examples/pipeline/jobs.rs"]
mod jobs;
#[allow(dead_code)]
#[path = "../../examples/pipeline/lines.rs"]
mod lines;
#[allow(dead_code)]
#[path = "../../examples/pipeline/progress.rs"]
mod progress;
#[allow(dead_code)]
#[path = "../../examples/pipeline/report.rs"]
mod report;
#[allow(dead_code)]
#[path = "../../examples/pipeline/station.rs"]
mod station;
#[allow(dead_code)]
#[path = "../../examples/pipeline/summary.rs"]
mod summary;
#[allow(dead_code)]
#[path = "../../examples/pipeline/text.rs"]
mod text;
