//! The example `lease` prints its table to the last figure.
#![forbid(unsafe_code)]

#[allow(dead_code, reason = "an example has a main")]
#[path = "../examples/lease.rs"]
mod lease;

const TABLE: &str = "\
-- orders: 2 partitions of 3 records; billing and email poll partition 1, under a lease of 30 s
   (committed: done up to there; next: handed out up to there; what lies between is in flight)
publish o-1 (user-a) -> p1 offset 0
publish o-2 (user-a) -> p1 offset 1
publish o-3 (user-a) -> p1 offset 2
publish o-4 (user-b) -> p0 offset 0
    p1: log has offsets 0 to 2, backlog 3/3, billing committed 0 next 0, email committed 0 next 0
publish o-5, wait 0 ms -> refused: orders/1 full (3 records): group 'email' has 3 unacknowledged (Topic::why_full tells why)
    p1: log has offsets 0 to 2, backlog 3/3, billing committed 0 next 0, email committed 0 next 0
billing polls 2 -> got 0:o-1, 1:o-2
billing acks through 0 -> done
    p1: log has offsets 0 to 2, backlog 3/3, billing committed 1 next 2, email committed 0 next 0
email polls 10 -> got 0:o-1, 1:o-2, 2:o-3
email acks all of it -> done
    p1: log has offsets 1 to 2, backlog 2/3, billing committed 1 next 2, email committed 3 next 3
publish o-5 -> offset 3
    p1: log has offsets 1 to 3, backlog 3/3, billing committed 1 next 2, email committed 3 next 3
31 s pass: billing's lease on o-2 is over
billing acks o-2, too late -> refused: orders/1: offsets 0 to 1 cannot be settled for billing any more: its lease expired
billing polls 10 -> got 1:o-2 (attempt 2), 2:o-3, 3:o-5
    p1: log has offsets 1 to 3, backlog 3/3, billing committed 1 next 4, email committed 3 next 3
billing acks through 3 -> done
    p1: log has offset 3, backlog 1/3, billing committed 4 next 4, email committed 3 next 3
billing acks through 7 -> refused: offset 7 is not in flight for billing (nothing is)
    p1: log has offset 3, backlog 1/3, billing committed 4 next 4, email committed 3 next 3
(o-4 lies in partition 0, which nobody here asked for)

-- payments: 1 partition of 10 records; ledger is called for each, and fails once
handle 0:pay-1 -> ok, acked
handle 1:pay-2 -> fails, nacked
handle 1:pay-2 -> ok, acked
handle 2:pay-3 -> ok, acked
    p0: log empty, next offset 3, backlog 0/10, ledger committed 3 next 3
";

// B-V1, B-V2, B-V3, B-V4, B-V5, B-V6, B-V7, B-V8, B-V10, B-4, B-9, B-10, B-27
#[test]
fn the_table_comes_out_to_the_last_figure() {
    // Its last part is run by a thread of its own, and the broker's timer looks at leases too: neither may show.
    for _ in 0..20 {
        let mut told = Vec::new();
        lease::tell(&mut told).unwrap();
        assert_eq!(String::from_utf8(told).unwrap(), TABLE);
    }
}
