//! The example `lease` prints the lease broker's table to the last figure.
#![forbid(unsafe_code)]

#[allow(dead_code, reason = "an example has a main")]
#[path = "../examples/lease.rs"]
mod lease;

const TABLE: &str = "\
publish o-1 (user-a) -> p1 offset 0
publish o-2 (user-a) -> p1 offset 1
publish o-3 (user-a) -> p1 offset 2
publish o-4 (user-b) -> p0 offset 0
    p1: log 0..2, backlog 3/3, billing committed 0 next 0, email committed 0 next 0
publish o-5, wait 0 ms -> partition full
    p1: log 0..2, backlog 3/3, billing committed 0 next 0, email committed 0 next 0
billing polls 2 -> got 0:o-1, 1:o-2
billing acks 0 -> done
    p1: log 0..2, backlog 3/3, billing committed 1 next 2, email committed 0 next 0
email polls 10 -> got 0:o-1, 1:o-2, 2:o-3
email acks 2 -> done
    p1: log 1..2, backlog 2/3, billing committed 1 next 2, email committed 3 next 3
publish o-5 -> offset 3
    p1: log 1..3, backlog 3/3, billing committed 1 next 2, email committed 3 next 3
31 s pass; billing polls 10 -> got 1:o-2, 2:o-3, 3:o-5
    p1: log 1..3, backlog 3/3, billing committed 1 next 4, email committed 3 next 3
billing acks 3 -> done
    p1: log 3..3, backlog 1/3, billing committed 4 next 4, email committed 3 next 3
billing acks 7 -> rejected: offset 7 is not in flight for billing (nothing is)
    p1: log 3..3, backlog 1/3, billing committed 4 next 4, email committed 3 next 3
handle 0:pay-1 -> ok, acked
handle 1:pay-2 -> throws, nacked
handle 1:pay-2 -> ok, acked
handle 2:pay-3 -> ok, acked
    p0: log empty, next offset 3, backlog 0/10, ledger committed 3 next 3
";

// B-V1, B-V2, B-V3, B-V4, B-V5, B-V6, B-V7, B-V8, B-V10, B-4, B-9, B-10, B-27
#[test]
fn the_table_comes_out_to_the_last_figure() {
    for _ in 0..20 {
        let mut told = Vec::new();
        lease::tell(&mut told).unwrap();
        assert_eq!(String::from_utf8(told).unwrap(), TABLE);
    }
}
