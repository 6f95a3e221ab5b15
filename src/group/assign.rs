//! Who gets which partition: the rule is a strategy of the group.
#![forbid(unsafe_code)]

use crate::sync::Arc;
use std::any::TypeId;
use std::fmt;

/// What an [`Assignor`] is asked: who is there, and who has what now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Deal {
    pub(super) members: Vec<Arc<str>>,
    pub(super) owners: Vec<Option<usize>>,
}

impl Deal {
    /// A question of one's own, to test an assignor with: the members in join order, and for each partition which of them
    /// has it now (an index into `members`), if any.
    pub fn new(members: impl IntoIterator<Item = impl Into<Arc<str>>>, owners: impl Into<Vec<Option<usize>>>) -> Self {
        Deal { members: members.into_iter().map(Into::into).collect(), owners: owners.into() }
    }

    /// The members' names, in join order; at least one.
    pub fn members(&self) -> &[Arc<str>] {
        &self.members
    }

    /// How many partitions there are.
    pub fn partitions(&self) -> usize {
        self.owners.len()
    }

    /// Which member has a partition now, as an index into [`members`](Self::members). `None`: nobody, or one who has left.
    pub fn owner(&self, partition: usize) -> Option<usize> {
        self.owners.get(partition).copied().flatten()
    }
}

/// The rule by which a group's partitions are given to its members; see [`GroupConfig::assignor`](crate::GroupConfig::assignor).
///
/// It is asked whenever a member joins or leaves, on the thread by which that came about, and under no lock: it may take
/// its time (the joiner or leaver waits for it) and may ask its group for figures. If members come or go meanwhile it is
/// asked again. An answer that cannot be used (of another length than there are partitions, naming a member that is not
/// there, a panic, or given by one that itself had members join or leave this group while it was asked) is put aside and
/// counted in [`GroupStats::bad_deals`](crate::GroupStats::bad_deals), and the partitions are dealt by [`RoundRobinAssignor`].
///
/// ```
/// use ringlog::{Assignor, Broker, Deal, GroupConfig, TopicConfig};
///
/// /// All to who came first; the others stand by.
/// #[derive(Debug)]
/// struct First;
/// impl Assignor for First {
///     fn assign(&self, deal: &Deal) -> Vec<usize> {
///         vec![0; deal.partitions()]
///     }
/// }
///
/// let broker = Broker::new();
/// let topic = broker.create_topic("orders", TopicConfig::<u64>::new().partitions(2))?;
/// let group = topic.group("billing", GroupConfig::earliest().assignor(First))?;
/// let leader = group.subscribe("leader", |_| ())?;
/// group.subscribe("standby", |_| ())?;
/// assert_eq!(group.assignment()[0].partitions, [0, 1]);
/// leader.leave();
/// assert_eq!(&*group.assignment()[0].member, "standby");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub trait Assignor: fmt::Debug + Send + Sync + 'static {
    /// For each partition, whose it shall be, as an index into [`Deal::members`].
    fn assign(&self, deal: &Deal) -> Vec<usize>;
}

/// Partition p goes to `members[p % n]`, in join order: the default.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RoundRobinAssignor;

impl Assignor for RoundRobinAssignor {
    fn assign(&self, deal: &Deal) -> Vec<usize> {
        (0..deal.partitions()).map(|partition| partition % deal.members.len().max(1)).collect()
    }
}

/// Moves as few partitions as possible while nobody has two more than another.
///
/// ```
/// use ringlog::{Assignor, Deal, StickyAssignor};
///
/// // a third member comes to two that have three partitions each
/// let deal = Deal::new(["a", "b", "c"], [0, 1, 0, 1, 0, 1].map(Some));
/// assert_eq!(StickyAssignor.assign(&deal), [0, 1, 0, 1, 2, 2]);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StickyAssignor;

impl Assignor for StickyAssignor {
    fn assign(&self, deal: &Deal) -> Vec<usize> {
        let n = deal.members.len().max(1);
        let mut has = vec![0_usize; n];
        deal.owners.iter().flatten().filter(|&&member| member < n).for_each(|&member| has[member] += 1);
        let mut room = vec![deal.partitions() / n; n];
        // What does not divide evenly stays with those who have most, who would have to give most away.
        let mut by_wealth: Vec<usize> = (0..n).collect();
        by_wealth.sort_by_key(|&member| std::cmp::Reverse(has[member]));
        by_wealth.iter().take(deal.partitions() % n).for_each(|&member| room[member] += 1);
        let keep = |owner: &Option<usize>| {
            let member = owner.filter(|&member| member < n && room[member] > 0)?;
            room[member] -= 1;
            Some(member)
        };
        let kept: Vec<Option<usize>> = deal.owners.iter().map(keep).collect();
        let mut next = 0;
        let take = |kept: Option<usize>| {
            kept.unwrap_or_else(|| {
                while room[next] == 0 {
                    next += 1;
                }
                room[next] -= 1;
                next
            })
        };
        kept.into_iter().map(take).collect()
    }
}

/// A group's assignor. Two are equal if they are the same one, or of one type that has no state.
#[derive(Clone)]
pub(super) struct Rule {
    assignor: Arc<dyn Assignor>,
    kind: TypeId,
}

impl Rule {
    pub(super) fn new<A: Assignor>(assignor: A) -> Self {
        Rule { assignor: Arc::new(assignor), kind: TypeId::of::<A>() }
    }

    pub(super) fn same(&self, other: &Rule) -> bool {
        let stateless = size_of_val(&*self.assignor) == 0 && self.kind == other.kind;
        stateless || Arc::ptr_eq(&self.assignor, &other.assignor)
    }

    /// The answer, if it can be used. User code, contained.
    pub(super) fn ask(&self, deal: &Deal) -> Option<Vec<usize>> {
        let answer = super::contain::contain(|| self.assignor.assign(deal)).ok()?;
        let usable = answer.len() == deal.partitions() && answer.iter().all(|&member| member < deal.members.len());
        usable.then_some(answer)
    }
}

impl Default for Rule {
    fn default() -> Self {
        Rule::new(RoundRobinAssignor)
    }
}

impl fmt::Debug for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.assignor.fmt(f)
    }
}

#[cfg(all(test, not(ringlog_loom)))]
mod tests {
    use super::{Assignor, Deal, RoundRobinAssignor, Rule, StickyAssignor};

    fn moves(deal: &Deal, to: &[usize]) -> usize {
        (0..deal.partitions()).filter(|&p| deal.owner(p).is_some_and(|owner| owner != to[p])).count()
    }

    fn is_balanced(to: &[usize], members: usize) -> bool {
        let load: Vec<usize> = (0..members).map(|member| to.iter().filter(|&&one| one == member).count()).collect();
        load.iter().max().unwrap() - load.iter().min().unwrap() <= 1
    }

    // A-61
    #[test]
    fn round_robin_follows_the_join_order() {
        let deal = Deal::new(["a", "b", "c"], vec![None; 5]);
        assert_eq!(RoundRobinAssignor.assign(&deal), [0, 1, 2, 0, 1]);
    }

    /// The fewest moves that any balanced assignment needs, found by trying all.
    fn fewest(deal: &Deal) -> usize {
        let (n, partitions) = (deal.members().len(), deal.partitions());
        let every = 0..n.pow(u32::try_from(partitions).unwrap());
        let digits = |mut number: usize| {
            let mut digit = || {
                let last = number % n;
                number /= n;
                last
            };
            (0..partitions).map(|_| digit()).collect::<Vec<usize>>()
        };
        every.map(digits).filter(|to| is_balanced(to, n)).map(|to| moves(deal, &to)).min().unwrap()
    }

    // B-E4
    #[test]
    fn sticky_is_balanced_and_moves_no_more_than_any_balanced_rule_must() {
        for members in 1..=4_usize {
            for partitions in 0..=4_u32 {
                // every way in which the partitions can have been given out before
                for before in 0..(members + 1).pow(partitions) {
                    let owner = |p: u32| (before / (members + 1).pow(p) % (members + 1)).checked_sub(1);
                    let owners: Vec<Option<usize>> = (0..partitions).map(owner).collect();
                    let deal = Deal::new((0..members).map(|member| member.to_string()), owners);
                    let to = StickyAssignor.assign(&deal);
                    assert!(is_balanced(&to, members), "{deal:?}: {to:?}");
                    assert_eq!(moves(&deal, &to), fewest(&deal), "{deal:?}: {to:?}");
                }
            }
        }
    }

    #[derive(Debug)]
    struct Says(Vec<usize>);
    impl Assignor for Says {
        fn assign(&self, _: &Deal) -> Vec<usize> {
            self.0.clone()
        }
    }

    #[test]
    fn rules_are_equal_by_identity_or_when_they_have_no_state() {
        assert!(Rule::default().same(&Rule::new(RoundRobinAssignor)));
        assert!(!Rule::default().same(&Rule::new(StickyAssignor)));
        let says = Rule::new(Says(vec![0]));
        assert!(says.same(&says.clone()) && !says.same(&Rule::new(Says(vec![0]))));
    }

    #[test]
    fn an_answer_is_used_only_if_it_names_a_member_for_each_partition() {
        let deal = Deal::new(["a", "b"], vec![None; 2]);
        assert_eq!(Rule::new(Says(vec![1, 1])).ask(&deal), Some(vec![1, 1]));
        for wrong in [vec![], vec![0], vec![0, 2], vec![0, 0, 0]] {
            assert_eq!(Rule::new(Says(wrong)).ask(&deal), None);
        }
    }
}
