//! For models: a lane whose records are dealt in the order of their keys, with what was given back and waits.
#![forbid(unsafe_code)]

use super::super::claims::{Claim, Claims, RUN, Reset};
use super::failed::{Deal, Failed};
use super::keys::number;
use crate::ring::Gate;
use crate::seq::Seq;
use crate::sync::Arc;
use crate::time::Time;
use std::fmt;

/// See the module.
pub struct Dealt {
    /// Whose records they are.
    pub claims: Claims,
    failed: Failed,
    keys: Box<[Option<u64>]>,
}

impl Dealt {
    /// Over a ring of as many records as there are `keys`, all of them there.
    pub fn new(gate: Arc<Gate>, keys: &[Option<u64>]) -> Self {
        let capacity = keys.len() as u64;
        Dealt { claims: Claims::new(capacity, gate), failed: Failed::new(capacity, true), keys: keys.into() }
    }

    /// As `keyed` claims records that nobody has had in hand, at most `most` of them.
    pub fn deal(&self, most: usize) -> Option<Claim> {
        let mut learned: Option<(Seq, Vec<u64>)> = None;
        loop {
            if self.failed.stays() || self.claims.upcoming()?.at().get() as usize >= self.keys.len() {
                return None;
            }
            let known = learned.take();
            match self.failed.deal(&self.claims, most, known.as_ref().map(|(from, numbers)| (*from, &**numbers))) {
                Deal::Hand(claim) => return Some(claim),
                Deal::Unknown(from) => {
                    let keys = self.keys.get(from.get() as usize..)?.iter().take(RUN);
                    learned = Some((from, keys.map(|key| number(Ok::<_, ()>(*key))).collect()));
                }
                Deal::Bury(_) => panic!("so many do not wait here"),
                Deal::More => {}
                Deal::Nothing => return None,
            }
        }
    }

    /// The record of a claim failed, for the first time or again, and is due at once; false if it is not the claim's any more.
    pub fn fails(&self, claim: Claim, failures: u32) -> bool {
        self.failed.put(&self.claims, claim, claim.first(), failures, Time::ZERO)
    }

    /// Claims what has been due for longest; with how often it has failed.
    pub fn again(&self) -> Option<(Claim, u32)> {
        self.failed.take(&self.claims, Time::ZERO)
    }

    /// The records of a claim are done; how many were its own.
    pub fn done(&self, claim: Claim) -> u64 {
        let done = self.failed.settle(&self.claims, claim, |_| ()).done;
        self.claims.advance();
        done
    }

    /// Moves the cursor, by `seek`, which says from where to where.
    pub fn moves(&self, seek: impl FnOnce() -> (Seq, Seq)) -> Reset {
        let closed = self.claims.close();
        let (from, to) = seek();
        let reset = self.failed.reset(|| self.claims.reset(closed, from, to));
        self.claims.advance();
        reset
    }
}

impl fmt::Debug for Dealt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Dealt").field("claims", &self.claims).finish_non_exhaustive()
    }
}
