//! One process that wants the lock, and its reactions to messages and deadlines.

use crate::client_rules::ClientRules;
use crate::network::{Message, What};
use crate::server::{Answer, Command, News, Rules, Tick, Token};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Phase {
    Idle,
    /// `SET NX PX` has been sent.
    Acquiring,
    /// In the queue, or about to enter it.
    Queued,
    /// It has given up, and waits for the reply to its last request.
    Leaving,
    Held,
    Done,
    Dead,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Client {
    pub(crate) phase: Phase,
    process: u8,
    attempt: u8,
    /// The number of further holds that it wants.
    pub(crate) wishes: u8,
    /// The time of the unanswered request.
    requested: Option<Tick>,
    /// The time of the next poll.
    again: Tick,
    /// The difference between its clock and the server's, by the last reply.
    anchor: Option<i8>,
    /// An earlier request of the token has had no reply.
    unanswered: bool,
    deadline: Tick,
    renewing: Option<Tick>,
    renewal_is_due: bool,
    fencing: Option<Tick>,
    /// The time of the unanswered request that turns its exclusive hold into a shared one.
    pub(crate) downgrading: Option<Tick>,
    /// The tenure that it counts on; the client itself does not know it.
    pub(crate) tenure: u8,
    owed: [Option<Owed>; 4],
    pub(crate) paused: bool,
    /// How far its clock is behind.
    pub(crate) lag: Tick,
}

/// A command for a token that is repeated until it has a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Owed {
    token: Token,
    command: Command,
    sent: Tick,
    until: Tick,
}

impl Owed {
    fn is_answered_by(&self, message: &Message, command: Command) -> bool {
        (self.token, self.command, self.sent) == (message.token, command, message.sent)
    }
}

impl Client {
    pub(crate) fn new(process: usize, wishes: u8) -> Self {
        Client {
            phase: Phase::Idle,
            process: process as u8,
            attempt: 0,
            wishes,
            requested: None,
            again: 0,
            anchor: None,
            unanswered: false,
            deadline: 0,
            renewing: None,
            renewal_is_due: false,
            fencing: None,
            downgrading: None,
            tenure: 0,
            owed: [None; 4],
            paused: false,
            lag: 0,
        }
    }

    /// Returns `true` if it waits for the lock and is not paused.
    pub(crate) fn waits(&self) -> bool {
        matches!(self.phase, Phase::Acquiring | Phase::Queued) && !self.paused
    }

    pub(crate) fn is_still(&self) -> bool {
        self.paused || self.phase == Phase::Dead
    }

    pub(crate) fn believes(&self, now: Tick) -> bool {
        self.phase == Phase::Held && now - self.lag < self.deadline
    }

    /// Returns `true` if it still wants that token of its own.
    pub(crate) fn wants(&self, token: Token, conduct: &ClientRules) -> bool {
        let current = self.token(conduct);
        let next = self.downgrading.map(|_| Token(current.0 + 1));
        matches!(self.phase, Phase::Acquiring | Phase::Queued | Phase::Held)
            && (current == token || next == Some(token))
    }

    pub(crate) fn token(&self, conduct: &ClientRules) -> Token {
        let attempt = match conduct.fresh_tokens {
            true => self.attempt,
            false => 0,
        };
        Token::nth(self.process as usize, attempt.into()).expect("the attempt has a token")
    }

    /// Returns `true` if it would react to the message now.
    pub(crate) fn listens(&self, message: &Message) -> bool {
        let busy = self.phase == Phase::Queued && self.requested.is_some();
        let is_news = matches!(message.what, What::News(_));
        !(self.paused || busy && is_news)
    }
}

/// A client that takes a step.
pub(crate) struct Turn<'a> {
    pub(crate) client: &'a mut Client,
    pub(crate) conduct: &'a ClientRules,
    pub(crate) rules: &'a Rules,
    pub(crate) now: Tick,
    pub(crate) send: &'a mut dyn FnMut(Message),
    /// Is called with a fencing token that the client received and counts on.
    pub(crate) fenced: &'a mut dyn FnMut(u16),
}

impl Turn<'_> {
    fn clock(&self) -> Tick {
        self.now - self.client.lag
    }

    fn token(&self) -> Token {
        self.client.token(self.conduct)
    }

    fn say(&mut self, token: Token, command: Command) {
        let sent = self.clock();
        let repeated = matches!(command, Command::Wait(_)) && self.client.anchor.is_some();
        (self.send)(Message {
            token,
            sent,
            what: What::Request(command),
            tenure: repeated.into(),
            slow: false,
        });
    }

    // Decisions of the client.

    pub(crate) fn start(&mut self) {
        match self.conduct.tries_first {
            true => self.take(),
            false => self.ask(),
        }
    }

    pub(crate) fn give_up(&mut self) {
        match (self.client.phase, self.client.requested) {
            (Phase::Acquiring, _) => {
                let token = self.token();
                self.finish();
                self.owe(token, Command::Release);
            }
            (_, Some(_)) => self.client.phase = Phase::Leaving,
            (_, None) => self.leave(),
        }
    }

    pub(crate) fn release(&mut self) {
        let (token, downgrading) = (self.token(), self.client.downgrading.is_some());
        self.finish();
        self.owe(token, Command::Release);
        if downgrading {
            // The server may store either token.
            self.client.attempt += 1;
            self.owe(Token(token.0 + 1), Command::Release);
        }
    }

    pub(crate) fn downgrade(&mut self) {
        self.client.renewal_is_due = false;
        self.client.renewing = None;
        self.client.fencing = None;
        self.client.downgrading = Some(self.clock());
        self.say(self.token(), Command::Downgrade);
    }

    pub(crate) fn renew(&mut self) {
        self.client.renewal_is_due = false;
        self.client.renewing = Some(self.clock());
        self.say(self.token(), Command::Renew);
    }

    pub(crate) fn fence(&mut self) {
        self.client.fencing = Some(self.clock());
        self.say(self.token(), Command::Fence);
    }

    /// Begins the next hold.
    pub(crate) fn again(&mut self) {
        self.client.wishes -= 1;
        if self.next_attempt() {
            self.start();
        }
    }

    // Actions that are due before time passes; each returns `true` if there was one.

    pub(crate) fn is_due(&self) -> bool {
        let (client, clock) = (&*self.client, self.clock());
        let overdue =
            |sent: Option<Tick>| sent.is_some_and(|at| clock >= at + self.conduct.patience);
        if client.paused {
            return false;
        }
        if client
            .owed
            .iter()
            .flatten()
            .any(|owed| overdue(Some(owed.sent)))
        {
            return true;
        }
        match client.phase {
            Phase::Acquiring | Phase::Leaving => overdue(client.requested),
            Phase::Queued if !self.conduct.asks_again => false,
            Phase::Queued if client.requested.is_some() => overdue(client.requested),
            Phase::Queued => clock >= client.again,
            Phase::Held => {
                let answer_counts = !self.conduct.renews_in_time && client.renewing.is_some();
                clock >= client.deadline && !answer_counts
                    || overdue(client.renewing)
                    || overdue(client.fencing)
                    || overdue(client.downgrading)
                    || client.renewal_is_due && client.renewing.is_none()
            }
            _ => false,
        }
    }

    pub(crate) fn due(&mut self) {
        let clock = self.clock();
        let patience = self.conduct.patience;
        let overdue = |sent: Option<Tick>| sent.is_some_and(|at| clock >= at + patience);
        for n in 0..self.client.owed.len() {
            if let Some(owed) = self.client.owed[n]
                && overdue(Some(owed.sent))
            {
                return self.persist(n, owed);
            }
        }
        match self.client.phase {
            Phase::Acquiring => self.took_too_long(),
            Phase::Leaving => {
                self.client.unanswered = true;
                self.leave();
            }
            Phase::Queued => {
                self.client.unanswered |= self.client.requested.is_some();
                self.ask();
            }
            _ if clock >= self.client.deadline => self.release(),
            _ if overdue(self.client.fencing) => self.client.fencing = None,
            _ if overdue(self.client.downgrading) => self.downgrade(),
            _ => self.renew(),
        }
    }

    fn persist(&mut self, n: usize, mut owed: Owed) {
        if self.clock() >= owed.until {
            self.client.owed[n] = None;
            return;
        }
        owed.sent = self.clock();
        self.client.owed[n] = Some(owed);
        self.say(owed.token, owed.command);
    }

    // Reactions to messages.

    pub(crate) fn hear(&mut self, message: Message) {
        match message.what {
            What::News(News::Grant { to, at, lease }) => {
                self.granted(to, at, lease, message.tenure);
            }
            What::News(News::Free(_)) if self.client.phase == Phase::Queued => {
                if message.token == self.token() {
                    self.ask();
                }
            }
            What::Reply(command, answer) => self.answered(message, command, answer),
            What::News(_) | What::Request(_) => {}
        }
    }

    fn answered(&mut self, message: Message, command: Command, answer: Answer) {
        for owed in &mut self.client.owed {
            if owed.is_some_and(|it| it.is_answered_by(&message, command)) {
                *owed = None;
                return;
            }
        }
        if message.token != self.token() {
            return;
        }
        let from = match self.conduct.from_send {
            true => message.sent,
            false => self.clock(),
        };
        let last = |requested| requested == Some(message.sent);
        match (command, answer, self.client.phase) {
            (Command::Take, Answer::Was(taken), Phase::Acquiring)
                if last(self.client.requested) =>
            {
                match taken {
                    true if self.hold(from, self.rules.ttl, message.tenure) => {}
                    true => self.took_too_long(),
                    false => {
                        if self.next_attempt() {
                            self.ask();
                        }
                    }
                }
            }
            (Command::Wait(_), answer, Phase::Queued | Phase::Leaving)
                if last(self.client.requested) || !self.conduct.heeds_last =>
            {
                self.stands(message, from, answer);
            }
            (Command::Wait(_), Answer::Granted(left) | Answer::Adopted(left), Phase::Held)
                if !self.conduct.heeds_last =>
            {
                let deadline = from + left - self.conduct.margin;
                self.client.deadline = self.client.deadline.max(deadline);
            }
            (Command::Renew, Answer::Was(ours), Phase::Held) if last(self.client.renewing) => {
                self.client.renewing = None;
                let late = self.clock() >= self.client.deadline;
                if !ours || late && self.conduct.renews_in_time {
                    return self.release();
                }
                self.client.deadline = from + self.rules.ttl - self.conduct.margin;
            }
            (Command::Downgrade, answer, Phase::Held) if last(self.client.downgrading) => {
                match answer {
                    Answer::Adopted(left) if self.clock() < self.client.deadline => {
                        self.client.downgrading = None;
                        self.client.attempt += 1;
                        self.client.tenure = message.tenure;
                        self.client.deadline = from + left - self.conduct.margin;
                    }
                    _ => self.release(),
                }
            }
            (Command::Fence, Answer::Fence(fence), Phase::Held) if last(self.client.fencing) => {
                self.client.fencing = None;
                match fence {
                    Some(fence) if self.client.believes(self.now) => (self.fenced)(fence),
                    _ => self.release(),
                }
            }
            _ => {}
        }
    }

    fn stands(&mut self, message: Message, from: Tick, answer: Answer) {
        let leaving = self.client.phase == Phase::Leaving;
        match answer {
            Answer::Void => {
                if leaving {
                    self.finish();
                } else if self.next_attempt() {
                    self.ask();
                }
            }
            _ if leaving => {
                self.client.unanswered = false;
                self.leave();
            }
            Answer::Granted(left) | Answer::Adopted(left) => {
                let held = self.hold(from, left, message.tenure);
                if !held {
                    self.ask();
                }
            }
            Answer::Waiting(place) => {
                let clock = self.clock();
                self.client.requested = None;
                self.client.unanswered = false;
                self.client.anchor = Some(message.sent.cast_signed() - place.at.cast_signed());
                let end = match self.conduct.asks_at_the_end {
                    true => place.left.max(1),
                    false => Tick::MAX / 2,
                };
                self.client.again = clock + self.conduct.period.min(end);
            }
            _ => {}
        }
    }

    fn granted(&mut self, to: Token, at: Tick, lease: Tick, tenure: u8) {
        let client = &self.client;
        let known = client.owed.iter().flatten().any(|owed| owed.token == to);
        let current = to == self.token();
        match client.phase {
            Phase::Queued if current => {
                let published = match (self.conduct.anchored, client.anchor) {
                    (false, _) => Some(self.clock()),
                    (true, Some(anchor)) => {
                        let granted = (at.cast_signed() + anchor).max(0).cast_unsigned();
                        Some(granted.min(self.clock()))
                    }
                    // Without an anchor, the delay of the message is unknown.
                    (true, None) => None,
                };
                if !published.is_some_and(|from| self.hold(from, lease, tenure)) {
                    self.ask();
                }
            }
            Phase::Held | Phase::Leaving if current => {}
            _ if known => {}
            _ if self.conduct.returns_grants => self.owe(to, Command::Cancel),
            _ => {}
        }
    }

    // Effects.

    fn take(&mut self) {
        self.client.phase = Phase::Acquiring;
        self.client.requested = Some(self.clock());
        self.say(self.token(), Command::Take);
    }

    fn took_too_long(&mut self) {
        let token = self.token();
        self.owe(token, Command::Release);
        if self.next_attempt() {
            self.take();
        }
    }

    fn ask(&mut self) {
        let clock = self.clock();
        let void_after = self.client.anchor.filter(|_| self.conduct.voids);
        let void_after = void_after.map_or(0, |anchor| {
            (clock + self.rules.alive).saturating_add_signed(-anchor)
        });
        self.client.phase = Phase::Queued;
        self.client.requested = Some(clock);
        self.client.again = 0;
        self.say(self.token(), Command::Wait(void_after));
    }

    /// Begins a hold. Returns `false` if the lease is over already.
    fn hold(&mut self, from: Tick, lease: Tick, tenure: u8) -> bool {
        let deadline = (from + lease).saturating_sub(self.conduct.margin);
        if deadline <= self.clock() {
            return false;
        }
        self.forget();
        self.client.phase = Phase::Held;
        self.client.deadline = deadline;
        self.client.tenure = tenure;
        self.client.renewal_is_due = lease < self.rules.ttl && self.conduct.renews_grants;
        true
    }

    fn leave(&mut self) {
        let (token, unanswered) = (self.token(), self.client.unanswered);
        self.finish();
        let command = match unanswered && self.conduct.buries {
            true => Command::CancelWithTombstone,
            false => Command::Cancel,
        };
        self.owe(token, command);
    }

    fn owe(&mut self, token: Token, command: Command) {
        self.say(token, command);
        if !self.conduct.persists {
            return;
        }
        let sent = self.clock();
        let until = match command {
            Command::Release => sent + self.rules.ttl,
            _ => sent + self.rules.ttl.max(self.rules.alive),
        };
        let owed = &mut self.client.owed;
        let free = owed
            .iter()
            .position(|owed| owed.is_none_or(|it| it.token == token));
        owed[free.expect("there is room")] = Some(Owed {
            token,
            command,
            sent,
            until,
        });
    }

    /// Takes the next token. Returns `false` if there are no more.
    fn next_attempt(&mut self) -> bool {
        self.forget();
        let next = self.client.attempt + 1;
        let more = Token::nth(self.client.process as usize, next.into()).is_some();
        match more {
            true => self.client.attempt = next,
            false => {
                self.client.phase = Phase::Done;
                self.client.wishes = 0;
            }
        }
        more
    }

    fn finish(&mut self) {
        self.forget();
        self.client.phase = Phase::Done;
    }

    fn forget(&mut self) {
        let client = &mut *self.client;
        client.requested = None;
        client.again = 0;
        client.anchor = None;
        client.unanswered = false;
        client.deadline = 0;
        client.renewing = None;
        client.renewal_is_due = false;
        client.fencing = None;
        client.downgrading = None;
        client.tenure = 0;
    }
}
