//! Who is in a group: its members in join order, and those on their way out.
#![forbid(unsafe_code)]

use super::context::Id;
use super::error::SubscribeError;
use super::executor::Seat;
use super::word::MemberId;
use crate::sync::Arc;
use crate::sync::atomic::AtomicBool;

/// One member.
#[derive(Clone, Debug)]
pub(super) struct Member {
    pub(super) id: MemberId,
    pub(super) name: Arc<str>,
    /// Who steps its lanes: one for all, or one for each partition.
    pub(super) seats: Arc<[Arc<dyn Seat>]>,
    /// The partitions that it wants, and no others; empty: it takes what it is given.
    pub(super) only: Arc<[u32]>,
    /// Set when it is told to leave.
    pub(super) left: Arc<AtomicBool>,
    /// How many tasks it still has: one for each seat.
    tasks: usize,
}

impl Member {
    pub(super) fn seat(&self, partition: usize) -> Option<&Arc<dyn Seat>> {
        self.seats.get(partition).or(self.seats.first())
    }
}

/// A handler that has not returned, or a consumer that has not come back, although its lease is over.
#[derive(Clone, Copy, Debug)]
pub(super) struct Hung {
    pub(super) member: MemberId,
    pub(super) executor: Id,
    pub(super) partition: u32,
    /// It is a consumer, which has nothing in hand any more.
    pub(super) polls: bool,
}

/// The members of a group. Lives under the group's roster lock; no user code runs under that.
#[derive(Debug, Default)]
pub(super) struct Roster {
    members: Vec<Member>,
    /// Those who left and may still hold a lane, so that they can be rung.
    leaving: Vec<Member>,
    last_id: u32,
    closed: bool,
    /// Somebody was in all the way.
    begun: bool,
    /// Counts comings and goings, so that an assignor's answer is known to be of today.
    version: u64,
    /// The last member has left, and the group goes with it.
    retired: bool,
    hung: Vec<Hung>,
}

/// The first of a list, which is mostly the only one, takes no more room than it needs.
fn push(list: &mut Vec<Member>, member: Member) {
    if list.is_empty() {
        list.reserve_exact(1);
    }
    list.push(member);
}

impl Roster {
    /// Adds a member at the end, or says why not.
    pub(super) fn add(
        &mut self,
        group: &Arc<str>,
        name: &Arc<str>,
        seats: Arc<[Arc<dyn Seat>]>,
        only: &[u32],
    ) -> Result<Member, SubscribeError> {
        if self.closed {
            return Err(SubscribeError::Closed { group: group.clone() });
        }
        if self.members.iter().any(|member| member.name == *name) {
            return Err(SubscribeError::Duplicate { group: group.clone(), member: name.clone() });
        }
        let left = Arc::new(AtomicBool::new(false));
        let (id, tasks) = (self.fresh_id(), seats.len());
        let member = Member { id, name: name.clone(), seats, only: only.into(), left, tasks };
        push(&mut self.members, member.clone());
        self.version += 1;
        Ok(member)
    }

    /// Somebody has come all the way in: its tasks have somebody to run them.
    pub(super) fn joined(&mut self) {
        self.begun = true;
    }

    /// A number that nobody has. The numbers go round after a million joins; a group never has so many at once.
    fn fresh_id(&mut self) -> MemberId {
        loop {
            self.last_id = self.last_id % MemberId::MAX + 1;
            let taken = |member: &Member| member.id.get() == self.last_id;
            if !self.members.iter().chain(&self.leaving).any(taken) {
                if let Some(id) = MemberId::new(self.last_id) {
                    return id;
                }
            }
        }
    }

    /// Takes a member out; `None` if it is not in. With the last one of an `ephemeral` group nobody comes in any more, unless
    /// nobody ever came all the way in.
    pub(super) fn remove(&mut self, id: MemberId, ephemeral: bool) -> Option<Member> {
        let at = self.members.iter().position(|member| member.id == id)?;
        let member = self.members.remove(at);
        push(&mut self.leaving, member.clone());
        self.hung.retain(|hung| !(hung.polls && hung.member == id));
        self.version += 1;
        if ephemeral && self.begun && self.members.is_empty() {
            (self.closed, self.retired) = (true, true);
        }
        Some(member)
    }

    /// One of a leaver's tasks is gone; with the last one it is forgotten.
    pub(super) fn forget(&mut self, id: MemberId) {
        if let Some(member) = self.leaving.iter_mut().find(|member| member.id == id) {
            member.tasks -= 1;
        }
        self.leaving.retain(|member| member.tasks > 0);
    }

    /// Takes everybody out, and nobody in any more.
    pub(super) fn close(&mut self) -> Vec<Member> {
        self.closed = true;
        self.version += 1;
        let all = std::mem::take(&mut self.members);
        self.hung.retain(|hung| !hung.polls);
        self.leaving.extend(all.iter().cloned());
        all
    }

    /// Whether a member, one on the way out included, has a seat that `is` says so of.
    pub(super) fn any_seat(&self, is: impl Fn(&dyn Seat) -> bool) -> bool {
        self.everybody().any(|member| member.seats.iter().any(|seat| is(&**seat)))
    }

    pub(super) fn is_closed(&self) -> bool {
        self.closed
    }

    /// Whether the last member has left and the group is to go.
    pub(super) fn is_retired(&self) -> bool {
        self.retired
    }

    /// A handler hangs: what its executor has is for others.
    pub(super) fn hangs(&mut self, hung: Hung) {
        self.hung.push(hung);
        self.version += 1;
    }

    /// It has returned. False if it was not known to hang.
    pub(super) fn hangs_no_more(&mut self, member: MemberId, partition: u32) -> bool {
        let before = self.hung.len();
        self.hung.retain(|hung| (hung.member, hung.partition) != (member, partition));
        let hung = self.hung.len() < before;
        self.version += u64::from(hung);
        hung
    }

    /// A consumer is overdue: as `hangs`, if it is in, and does not wait in a poll.
    pub(super) fn is_overdue(&mut self, member: MemberId, partition: u32) -> bool {
        let seat = self.members.iter().find(|one| one.id == member).and_then(|one| one.seat(partition as usize));
        let Some(executor) = seat.filter(|seat| !seat.is_waiting()).map(|seat| seat.executor()) else { return false };
        self.hangs(Hung { member, executor, partition, polls: true });
        true
    }

    /// A consumer polls, or settles. False if it was not known to hang.
    pub(super) fn comes_back(&mut self, member: MemberId) -> bool {
        let before = self.hung.len();
        self.hung.retain(|hung| hung.member != member);
        let hung = self.hung.len() < before;
        self.version += u64::from(hung);
        hung
    }

    /// Whether a handler has not returned.
    pub(super) fn any_handler_hangs(&self) -> bool {
        self.hung.iter().any(|hung| !hung.polls)
    }

    pub(super) fn anybody_hangs(&self) -> bool {
        !self.hung.is_empty()
    }

    /// Whether a handler of this member hangs: it has something in hand.
    pub(super) fn has_hung(&self, id: MemberId) -> bool {
        self.hung.iter().any(|hung| hung.member == id && !hung.polls)
    }

    /// Whether what would step a partition for this member hangs.
    pub(super) fn is_hung(&self, id: MemberId, partition: usize) -> bool {
        let executor = self.find(id).and_then(|member| member.seat(partition)).map(|seat| seat.executor());
        executor.is_some_and(|executor| self.hung.iter().any(|hung| hung.executor == executor))
    }

    /// The members that could step a partition, and take what they are given, in join order.
    pub(super) fn able(&self, partition: usize) -> impl Iterator<Item = MemberId> + '_ {
        self.dealt_to().map(|member| member.id).filter(move |id| !self.is_hung(*id, partition))
    }

    /// How often members came or went, or were found to hang or to have returned.
    pub(super) fn version(&self) -> u64 {
        self.version
    }

    /// The members among whom partitions are dealt, in join order: those that take what they are given.
    pub(super) fn dealt_to(&self) -> impl Iterator<Item = &Member> {
        self.members.iter().filter(|member| member.only.is_empty())
    }

    /// Where a member stands among them; `None` if it does not.
    pub(super) fn index_of(&self, id: MemberId) -> Option<usize> {
        self.dealt_to().position(|member| member.id == id)
    }

    /// The members that want just this partition, in join order.
    pub(super) fn wanting(&self, partition: u32) -> impl Iterator<Item = MemberId> + '_ {
        self.members.iter().filter(move |member| member.only.contains(&partition)).map(|member| member.id)
    }

    pub(super) fn members(&self) -> &[Member] {
        &self.members
    }

    /// Who is in, and who is leaving.
    pub(super) fn everybody(&self) -> impl Iterator<Item = &Member> {
        self.members.iter().chain(&self.leaving)
    }

    /// A member that is in, or is leaving.
    pub(super) fn find(&self, id: MemberId) -> Option<&Member> {
        self.members.iter().chain(&self.leaving).find(|member| member.id == id)
    }
}
