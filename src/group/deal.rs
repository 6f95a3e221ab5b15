//! Members come, go, and are given partitions.
//!
//! Who is in is decided under the roster lock; who gets what is asked of the group's assignor, which is user code, outside
//! it. The roster counts its changes: an answer to a question that is no longer today's is dropped, and the question put
//! again. So of two changes at once the later one's answer holds, whoever of the two gives it.
#![forbid(unsafe_code)]

use super::Group;
use super::assign::{Assignor, Deal, RoundRobinAssignor};
use super::error::SubscribeError;
use super::executor::Seat;
use super::lane::Lane;
use super::roster::{Member, Roster};
use super::word::MemberId;
use crate::sync::atomic::Ordering;
use crate::sync::{Arc, lock};
use std::cell::RefCell;

/// Bells to ring once the roster lock is open.
pub(super) type Rings = Vec<Arc<dyn Seat>>;

/// What a deal changed: whom to ring, and which partitions have another owner.
#[derive(Default)]
struct Dealt {
    rings: Rings,
    moved: Vec<usize>,
}

/// What a member has, and what is on its way.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Assignment {
    /// The member.
    pub member: Arc<str>,
    /// The partitions that are its own.
    pub partitions: Vec<u32>,
    /// Those of them that somebody else has still in hand: they come when the record in hand there is done.
    pub coming: Vec<u32>,
    /// Partitions that it has still in hand and that are another's, or nobody's, from then on.
    pub going: Vec<u32>,
}

impl Assignment {
    /// The partitions that it may be handed records of at this moment.
    pub fn holds(&self) -> Vec<u32> {
        let here = self.partitions.iter().filter(|partition| !self.coming.contains(partition));
        let mut all: Vec<u32> = here.chain(&self.going).copied().collect();
        all.sort_unstable();
        all
    }
}

// Which groups' assignors this thread is asking, and whether the members of each changed by its own doing meanwhile.
thread_local! { static ASKING: RefCell<Vec<(usize, bool)>> = const { RefCell::new(Vec::new()) }; }

/// While it lives, this thread asks the assignor of a group.
struct Asking(usize);

impl Asking {
    /// `None` if it does so already, further up: there it is then asked no more.
    fn of<T>(group: &Group<T>) -> Option<Self> {
        let id = std::ptr::from_ref(group).addr();
        ASKING.with_borrow_mut(|all| {
            if let Some((_, disturbed)) = all.iter_mut().find(|(one, _)| *one == id) {
                *disturbed = true;
                return None;
            }
            all.push((id, false));
            Some(Asking(id))
        })
    }

    fn is_disturbed(&self) -> bool {
        ASKING.with_borrow(|all| all.contains(&(self.0, true)))
    }
}

impl Drop for Asking {
    fn drop(&mut self) {
        ASKING.with_borrow_mut(|all| all.retain(|(one, _)| *one != self.0));
    }
}

impl<T: Send + Sync + 'static> Group<T> {
    pub(super) fn enrol(
        &self,
        name: &Arc<str>,
        seats: Arc<[Arc<dyn Seat>]>,
        only: &[u32],
    ) -> Result<Member, SubscribeError> {
        let partitions = u32::try_from(self.lanes.len()).unwrap_or(u32::MAX);
        if let Some(&partition) = only.iter().find(|partition| **partition >= partitions) {
            let (topic, group, member) = (self.home.topic.clone(), self.name.clone(), name.clone());
            return Err(SubscribeError::NoPartition { topic, group, member, partition, partitions });
        }
        lock(&self.roster).add(&self.name, name, seats, only)
    }

    /// A member is all the way in: every lane goes to whom it belongs from now on.
    pub(super) fn welcome(&self) {
        lock(&self.roster).joined();
        self.redeal();
    }

    /// Every lane goes to whom it belongs as things are now. User code.
    pub(super) fn redeal(&self) {
        let dealt = self.deal();
        self.announce(&dealt);
    }

    /// Tells whom a deal concerns; outside the roster lock.
    fn announce(&self, dealt: &Dealt) {
        dealt.rings.iter().for_each(|seat| seat.ring());
        // A handler that waits for room may now be waiting for its own thread: it looks again.
        dealt.moved.iter().for_each(|&partition| self.lanes[partition].log.not_full().wake_all());
        if !dealt.moved.is_empty() {
            self.progress.notify();
        }
    }

    /// Asks whose each lane shall be, and gives it to them.
    fn deal(&self) -> Dealt {
        let Some(asking) = Asking::of(self) else { return Dealt::default() };
        loop {
            let (version, deal, ids) = self.question();
            let answer = if deal.members.is_empty() { Some(Vec::new()) } else { self.config.assignor.ask(&deal) };
            let disturbed = asking.is_disturbed();
            let answer = answer.filter(|_| !disturbed);
            let roster = lock(&self.roster);
            if !disturbed && roster.version() != version {
                continue;
            }
            let plan: Vec<MemberId> = match answer {
                Some(answer) => answer.into_iter().map(|member| ids[member]).collect(),
                None => {
                    // ORD(bad_deal:A) Relaxed: a counter.
                    self.bad_deals.fetch_add(1, Ordering::Relaxed);
                    self.round_robin(&roster)
                }
            };
            return self.give(&roster, &plan);
        }
    }

    /// Who is in, and what they have.
    fn question(&self) -> (u64, Deal, Vec<MemberId>) {
        let roster = lock(&self.roster);
        let members = roster.dealt_to().map(|member| member.name.clone()).collect();
        let owners = self.lanes.iter().map(|lane| roster.index_of(lane.word.load().target())).collect();
        (roster.version(), Deal { members, owners }, roster.dealt_to().map(|member| member.id).collect())
    }

    /// What is given out when the group's own rule gives no answer.
    fn round_robin(&self, roster: &Roster) -> Vec<MemberId> {
        let ids: Vec<MemberId> = roster.dealt_to().map(|member| member.id).collect();
        if ids.is_empty() {
            return Vec::new();
        }
        let deal =
            Deal { members: roster.dealt_to().map(|m| m.name.clone()).collect(), owners: vec![None; self.lanes.len()] };
        RoundRobinAssignor.assign(&deal).into_iter().map(|member| ids[member]).collect()
    }

    /// Gives the lanes out: to who wants just that one, else as planned, to nobody what the plan does not name. One dealer at a time: under the roster lock.
    fn give(&self, roster: &Roster, plan: &[MemberId]) -> Dealt {
        let mut dealt = Dealt::default();
        for (partition, lane) in self.lanes.iter().enumerate() {
            let planned = plan.get(partition).copied().unwrap_or(MemberId::NOBODY);
            let target = self.target(roster, lane.partition, planned);
            if self.seize(roster, lane, target) {
                dealt.rings.extend(roster.find(target).and_then(|member| member.seat(partition)).cloned());
                dealt.moved.push(partition);
                continue;
            }
            let Ok(before) = lane.word.retarget(target) else { continue };
            let holder = roster.find(if before.is_held() { before.owner() } else { target });
            dealt.rings.extend(holder.and_then(|member| member.seat(partition)).cloned());
            dealt.moved.push(partition);
        }
        dealt
    }

    /// Takes a member out and deals its partitions to the others, from where it committed. False if it was not in.
    pub fn leave(&self, id: MemberId) -> bool {
        let Some(member) = lock(&self.roster).remove(id, self.config.ephemeral) else { return false };
        let mut dealt = self.deal();
        dealt.rings.extend(member.seats.iter().cloned());
        // ORD(left:B) Release: after the deal. Pairs with ORD(left:A), ORD(left:D), ORD(left:E), ORD(left:F).
        member.left.store(true, Ordering::Release);
        self.announce(&dealt);
        if self.shares() {
            // It may be in the middle of a run of any lane; and what it gives back is for the others.
            self.lanes.iter().for_each(|lane| lane.word.nudge());
            // Who waits for room may be the only one left who could make it, and looks again.
            self.lanes.iter().for_each(|lane| lane.log.not_full().wake_all());
            (0..self.lanes.len()).for_each(|partition| self.ring_for(partition));
        }
        // A lane that nobody had in hand is nobody's from now on, and holds up no drain.
        self.progress.notify();
        self.retire_when_empty();
        true
    }

    /// An ephemeral group goes when its last member has left and has nothing in hand any more.
    pub(super) fn retire_when_empty(&self) {
        if self.config.ephemeral && self.is_retired() && self.is_quiet() {
            let _reported = self.save_behind(); // before somebody makes another one of its name
            (self.retire)(self);
            self.delete();
        }
    }

    /// One of a leaver's tasks is gone.
    pub(super) fn forget(&self, id: MemberId) {
        lock(&self.roster).forget(id);
    }

    /// A lane was handed over: its new owner is rung, and who waits for quiet looks again.
    pub(super) fn handed_over(&self, to: MemberId, partition: usize) {
        let seat = lock(&self.roster).find(to).and_then(|member| member.seat(partition)).cloned();
        if let Some(seat) = seat {
            seat.ring();
        }
        self.progress.notify();
        self.retire_when_empty();
    }

    /// Everybody leaves, and nobody joins any more. The cursors stay and gate.
    pub fn stop(&self) {
        let (all, dealt) = {
            let mut roster = lock(&self.roster);
            let all = roster.close();
            (all, self.give(&roster, &[]))
        };
        for member in &all {
            // ORD(left:C) Release: after the deal, as in `leave`. Pairs with ORD(left:A), ORD(left:D), ORD(left:E), ORD(left:F).
            member.left.store(true, Ordering::Release);
        }
        self.announce(&dealt);
        if self.shares() {
            // They may be in the middle of a run of any lane, also of one that is nobody's already.
            self.lanes.iter().for_each(|lane| lane.word.nudge());
        }
        all.iter().flat_map(|member| member.seats.iter()).for_each(|seat| seat.ring());
        self.call_back_idle();
        self.progress.notify();
    }

    /// Stops, and takes the cursors away: nothing is held back for this group any more, blocked publishers go on, and acks
    /// of what its handlers still have in hand are refused. Whether this call did it.
    pub fn delete(&self) -> bool {
        self.stop();
        let ended = self.lanes.iter().filter(|lane| lane.end()).count();
        self.lanes.iter().for_each(|lane| self.settle_down(lane));
        self.call_back();
        self.progress.notify();
        if ended > 0 {
            let _reported = self.save_at_end();
        }
        ended > 0
    }

    /// Who has which partitions, and which are on their way: members in join order, those with none too.
    pub fn assignment(&self) -> Vec<Assignment> {
        let roster = lock(&self.roster);
        let words: Vec<_> = self.lanes.iter().map(|lane| (lane.partition, lane.word.load())).collect();
        let of = |member: &Member| {
            let own = words.iter().filter(|(_, word)| word.target() == member.id);
            let coming = own.clone().filter(|(_, word)| word.owner() != member.id);
            let going = words.iter().filter(|(_, word)| word.owner() == member.id && word.target() != member.id);
            let [partitions, coming, going] =
                [own.map(|(p, _)| *p).collect(), coming.map(|(p, _)| *p).collect(), going.map(|(p, _)| *p).collect()];
            Assignment { member: member.name.clone(), partitions, coming, going }
        };
        roster.members().iter().map(of).collect()
    }

    /// What a member has to do as things stand: its partitions, and the end of each.
    pub fn goals(&self, id: MemberId) -> Vec<(u32, u64)> {
        let own = self.lanes.iter().filter(|lane| lane.word.load().target() == id);
        own.map(|lane| (lane.partition, lane.log.end().get())).collect()
    }

    /// Takes out what has become another's.
    pub fn cut_goals(&self, id: MemberId, goals: &mut Vec<(u32, u64)>) {
        let target = |partition: u32| self.lanes[partition as usize].word.load().target();
        goals.retain(|(partition, _)| [id, MemberId::NOBODY].contains(&target(*partition)));
    }

    /// How much of that it has not done yet. What has become another's is not its to do any more; what has become nobody's,
    /// because the group was stopped, is.
    pub fn left_of(&self, id: MemberId, goals: &[(u32, u64)]) -> u64 {
        let left = |&(partition, goal): &(u32, u64)| {
            let lane = &self.lanes[partition as usize];
            let target = lane.word.load().target();
            // Asked in this order: a stop closes the group before it takes the lanes.
            let its = target == id || (target == MemberId::NOBODY && self.is_closed());
            if its { lane.left_before(goal) } else { 0 }
        };
        goals.iter().map(left).sum()
    }

    /// Whether a lane is in its hands, also one that is over, or its handler has not returned from one that was seized.
    pub fn has_in_hand(&self, id: MemberId) -> bool {
        let holds = |lane: &Lane<T>| {
            let shared = || lane.shared.as_ref().is_some_and(|shared| shared.is_in_hand_of(id));
            lane.word.load().is_held_by(id) || shared()
        };
        let holds = self.lanes.iter().any(|lane| holds(lane));
        holds || (self.lease().is_some() && lock(&self.roster).has_hung(id))
    }

    /// Whether a member of that name is in.
    pub fn has_member(&self, name: &str) -> bool {
        lock(&self.roster).members().iter().any(|member| &*member.name == name)
    }

    /// Whether anybody is in.
    pub fn has_members(&self) -> bool {
        !lock(&self.roster).members().is_empty()
    }

    /// Whether the last member of an ephemeral group has left, and with it the group.
    pub fn is_retired(&self) -> bool {
        lock(&self.roster).is_retired()
    }
}
