//! On which processors a thread may run. Linux only; elsewhere there is nothing to ask for.
#![forbid(unsafe_code)]

use std::io;

/// Lets this thread run on these processors only.
///
/// # Errors
///
/// None of them exists or is allowed; a number is beyond what the kernel interface can say (1,024); not Linux.
#[cfg(all(target_os = "linux", not(ringlog_loom)))]
pub fn pin_this_thread(processors: &[usize]) -> io::Result<()> {
    use rustix::thread::{CpuSet, sched_setaffinity};
    let mut set = CpuSet::new();
    for &processor in processors {
        if processor >= CpuSet::MAX_CPU {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, format!("there is no processor {processor}")));
        }
        set.set(processor);
    }
    Ok(sched_setaffinity(None, &set)?)
}

/// Always an error here.
///
/// # Errors
///
/// This platform has no affinity.
#[cfg(not(all(target_os = "linux", not(ringlog_loom))))]
pub fn pin_this_thread(_processors: &[usize]) -> io::Result<()> {
    Err(io::Error::from(io::ErrorKind::Unsupported))
}

/// How many processors the threads of this process may use between them: its first thread and this one. A thread that is
/// pinned has one to itself, and is not alone for that.
#[cfg(all(target_os = "linux", not(ringlog_loom), not(miri)))]
pub(super) fn allowed_processors() -> usize {
    use rustix::{process::getpid, thread::CpuSet, thread::sched_getaffinity};
    let sets: Vec<CpuSet> = [Some(getpid()), None].into_iter().filter_map(|of| sched_getaffinity(of).ok()).collect();
    (0..CpuSet::MAX_CPU).filter(|&processor| sets.iter().any(|set| set.is_set(processor))).count()
}

/// How many processors this thread may use.
#[cfg(not(all(target_os = "linux", not(ringlog_loom), not(miri))))]
pub(super) fn allowed_processors() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

#[cfg(all(test, target_os = "linux", not(ringlog_loom)))]
mod tests {
    #[cfg(not(miri))]
    use super::allowed_processors;
    use super::pin_this_thread;
    use crate::sync::thread;

    #[test]
    fn a_thread_can_be_pinned_and_impossible_wishes_are_errors() {
        let alone = thread::spawn(|| {
            let allowed = (0..1024).any(|processor| pin_this_thread(&[processor]).is_ok());
            (allowed, thread::available_parallelism().unwrap().get())
        });
        assert_eq!(alone.join().unwrap(), (true, 1));
        assert!(pin_this_thread(&[usize::MAX]).is_err());
        assert!(pin_this_thread(&[]).is_err());
    }

    #[cfg(not(miri))]
    #[test]
    fn a_pinned_thread_still_counts_the_processors_of_the_others() {
        let pinned = thread::spawn(|| {
            let allowed = (0..1024).any(|processor| pin_this_thread(&[processor]).is_ok());
            (allowed, allowed_processors())
        });
        assert_eq!(pinned.join().unwrap(), (true, allowed_processors()));
    }
}
