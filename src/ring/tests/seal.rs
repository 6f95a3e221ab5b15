//! The end of a ring.
#![forbid(unsafe_code)]

use super::{BOTH, Pen, drain, ring};
use crate::ring::{Start, Why};
use crate::seq::Seq;

#[test]
fn sealed_rings_refuse_and_keep_what_they_have() {
    for producers in BOTH {
        let ring = ring(4, producers);
        let (mut pen, mut reader) = (Pen::of(&ring), ring.reader(Seq::ZERO));
        pen.push(1).unwrap();
        assert!(!ring.is_sealed());
        assert_eq!((ring.seal(), ring.seal()), (Seq::new(1), Seq::new(1)));
        assert!(ring.is_sealed());
        let refused = pen.push(2).unwrap_err();
        assert_eq!((refused.value, refused.why), (2, Why::Sealed));
        assert_eq!(pen.push_all(&mut vec![3, 4]), Err(Why::Sealed));
        assert_eq!((drain(&mut reader), ring.end()), (vec![1], Seq::new(1)));
    }
}

#[test]
fn a_full_ring_that_is_sealed_says_sealed() {
    for producers in BOTH {
        let ring = ring(1, producers);
        let _gate = ring.join(Start::End, 0);
        let mut pen = Pen::of(&ring);
        pen.push(1).unwrap();
        assert_eq!(pen.push(2).unwrap_err().why, Why::Full);
        ring.seal();
        assert_eq!(pen.push(2).unwrap_err().why, Why::Sealed);
    }
}
