//! Every order in which the commands of a few clients can arrive, on the real scripts: beside them
//! runs a model of a queue, and the server must say and do the same.

use redis::{Connection, Value};

use crate::ear::Ear;
use crate::lua::{ALIVE, Lua, Names, channel, connect, tombstone};
use crate::support::server::Server;

#[derive(Clone, Copy, Debug, PartialEq)]
enum Command {
    /// `SET NX PX`.
    Take,
    Wait,
    Release,
    Cancel,
    /// With a tombstone.
    Bury,
    /// The lease ends, whoever has it.
    Expire,
}

use Command::*;

/// What each client does, in this order; and who of them is out of reach.
struct Scene<'a> {
    programs: &'a [&'a [Command]],
    deaf: &'a [usize],
}

/// What the server should be like.
#[derive(Clone, Default)]
struct Model {
    holder: Option<usize>,
    queue: Vec<usize>,
    buried: Vec<usize>,
    deaf: Vec<usize>,
    /// Who has been told what: a grant, that it's the first now, or no longer alone.
    told: Vec<(usize, &'static str)>,
}

impl Model {
    /// The first number of the answer.
    fn step(&mut self, who: usize, command: Command) -> i64 {
        match command {
            Take => {
                let free = self.holder.is_none();
                self.holder.get_or_insert(who);
                free.into()
            }
            Wait => self.wait(who),
            Release => {
                let held = self.holder == Some(who);
                self.give_up(held);
                held.into()
            }
            Cancel | Bury => {
                let first = self.queue.first() == Some(&who);
                self.queue.retain(|other| *other != who);
                if command == Bury {
                    self.buried.push(who);
                }
                let held = self.holder == Some(who);
                match first && self.holder.is_some() {
                    true => self.tell_first(),
                    false => self.give_up(held),
                }
                held.into()
            }
            Expire => self.holder.take().is_some().into(),
        }
    }

    fn wait(&mut self, who: usize) -> i64 {
        if self.buried.contains(&who) {
            return 0;
        }
        if self.holder.is_none() {
            if self.queue.first().is_some_and(|first| *first != who) {
                self.hand_on(Some(who));
            }
            if self.holder.is_none() {
                self.queue.retain(|other| *other != who);
                self.holder = Some(who);
                return 1;
            }
        }
        if self.holder == Some(who) {
            return 3;
        }
        if !self.queue.contains(&who) {
            self.queue.push(who);
            if let [alone, _] = self.queue[..] {
                self.tell(alone, "others");
            }
        }
        2
    }

    fn give_up(&mut self, held: bool) {
        if held {
            self.holder = None;
        }
        self.hand_on(None);
    }

    /// The asker will be answered, and need not be told.
    fn hand_on(&mut self, asker: Option<usize>) {
        while self.holder.is_none() && !self.queue.is_empty() {
            let first = self.queue.remove(0);
            if Some(first) == asker || self.tell(first, "grant") {
                self.holder = Some(first);
                self.tell_first();
            }
        }
    }

    /// Who can't hear it is gone.
    fn tell_first(&mut self) {
        while let Some(first) = self.queue.first() {
            if self.tell(*first, "first") {
                return;
            }
            self.queue.remove(0);
        }
    }

    fn tell(&mut self, who: usize, what: &'static str) -> bool {
        let hears = !self.deaf.contains(&who);
        if hears {
            self.told.push((who, what));
        }
        hears
    }
}

/// The server, and what is said to it about one lock in one go.
struct Stage {
    connection: Connection,
    ear: Ear,
    lua: Lua,
    locks: usize,
    _server: Server,
}

const NAMES: [&str; 4] = ["a", "b", "c", "d"];

impl Stage {
    fn open(deaf: &[usize]) -> Self {
        let server = Server::start();
        let hears = |who: &usize| !deaf.contains(who);
        let channels: Vec<_> = (0..NAMES.len())
            .filter(hears)
            .map(|who| channel(NAMES[who]))
            .collect();
        let lua = Lua::new();
        let mut connection = connect(&server);
        for script in [&lua.wait, &lua.cancel, &lua.release] {
            script.prepare_invoke().load(&mut connection).unwrap();
        }
        Self {
            connection,
            ear: Ear::open(&server, &channels),
            lua,
            locks: 0,
            _server: server,
        }
    }

    fn command(&self, names: &Names, who: usize, command: Command) -> redis::Cmd {
        let token = self.token(who);
        let script = match command {
            Take => {
                let mut set = redis::cmd("SET");
                set.arg(&names.lock).arg(token);
                set.arg("NX").arg("PX").arg(60_000);
                return set;
            }
            Expire => {
                let mut delete = redis::cmd("DEL");
                delete.arg(&names.lock);
                return delete;
            }
            Wait => &self.lua.wait,
            Release => &self.lua.release,
            Cancel | Bury => &self.lua.cancel,
        };
        let mut call = redis::cmd("EVALSHA");
        let keys = if command == Release { 3 } else { 4 };
        call.arg(script.get_hash()).arg(keys);
        call.arg(&names.lock).arg(&names.queue).arg(&names.waiters);
        if command != Release {
            call.arg(tombstone(&token));
        }
        call.arg(token);
        match command {
            Wait => call.arg(60_000).arg(channel(NAMES[who])).arg(ALIVE).arg(0),
            Bury => call.arg(60_000),
            Cancel => call.arg(0),
            _ => &mut call,
        };
        call
    }

    fn token(&self, who: usize) -> String {
        format!("{}{}", NAMES[who], self.locks)
    }

    /// Plays one order of commands on a lock of its own, until all have had it who want it.
    fn play(&mut self, scene: &Scene, order: &[usize]) {
        self.locks += 1;
        let names = Names::of(&format!("door:{}", self.locks));
        let mut model = Model {
            deaf: scene.deaf.to_vec(),
            ..Model::default()
        };
        let mut pipe = redis::pipe();
        let mut expected = Vec::new();
        let mut add = |model: &mut Model, who, command| {
            let answer = model.step(who, command);
            pipe.add_command(self.command(&names, who, command));
            pipe.cmd("GET").arg(&names.lock);
            pipe.cmd("ZRANGE").arg(&names.queue).arg(0).arg(-1);
            expected.push((who, command, answer, model.holder, model.queue.clone()));
            answer
        };
        let mut next = vec![0; scene.programs.len()];
        for who in order {
            add(&mut model, *who, scene.programs[*who][next[*who]]);
            next[*who] += 1;
        }
        for who in self.hopeful(scene, &model) {
            // As often as there may be others before it.
            let had = (0..=scene.programs.len()).any(|_| {
                let has = [1, 3].contains(&add(&mut model, who, Wait));
                if !has && let Some(holder) = model.holder {
                    add(&mut model, holder, Release);
                }
                has
            });
            assert!(had, "{} never has it: {expected:?}", NAMES[who]);
            add(&mut model, who, Release);
        }
        // Those who will not ask again are still in the queue, or hold it.
        for who in 0..scene.programs.len() {
            add(&mut model, who, Cancel);
        }
        assert_eq!((model.holder, &*model.queue), (None, &[][..]));
        let answers: Vec<Value> = pipe.query(&mut self.connection).unwrap();
        let mut believer = None;
        for (n, (step, answer)) in expected.iter().zip(answers.chunks(3)).enumerate() {
            let (who, command, expected_answer, holder, queue) = step;
            let so_far = &expected[..=n];
            let number = first_number(&answer[0]);
            assert_eq!(number, *expected_answer, "{so_far:?}");
            assert_eq!(
                read::<Option<String>>(&answer[1]),
                holder.map(|who| self.token(who)),
                "{so_far:?}"
            );
            let tokens: Vec<_> = queue.iter().map(|who| self.token(*who)).collect();
            assert_eq!(read::<Vec<String>>(&answer[2]), tokens, "{so_far:?}");
            // Who was told `yours` and hasn't given it up since is the only one.
            match (command, number) {
                (Take, 1) | (Wait, 1 | 3) => {
                    let before = believer.replace(*who);
                    assert!(before.is_none_or(|before| before == *who), "{so_far:?}");
                }
                (Release | Cancel | Bury, _) if believer == Some(*who) => believer = None,
                (Expire, _) => believer = None,
                _ => {}
            }
        }
        let told: Vec<_> = model
            .told
            .iter()
            .map(|(who, what)| (channel(NAMES[*who]), format!("{what} {}", self.token(*who))))
            .collect();
        let heard: Vec<_> = self
            .ear
            .heard()
            .into_iter()
            .map(|(channel, text)| {
                let words: Vec<_> = text.split(' ').take(2).collect();
                (channel, words.join(" "))
            })
            .collect();
        assert_eq!(heard, told, "{expected:?}");
    }

    /// Those who have not given up.
    fn hopeful(&self, scene: &Scene, model: &Model) -> Vec<usize> {
        let given_up = |who: &usize| {
            let last = scene.programs[*who].last().unwrap();
            model.buried.contains(who) || *last != Wait
        };
        (0..scene.programs.len())
            .filter(|who| !given_up(who))
            .collect()
    }
}

fn read<T: redis::FromRedisValue>(value: &Value) -> T {
    T::from_redis_value(value.clone()).unwrap()
}

/// `OK` counts as one, nothing as none.
fn first_number(answer: &Value) -> i64 {
    match answer {
        Value::Array(values) => read(&values[0]),
        Value::Okay => 1,
        Value::Nil => 0,
        number => read(number),
    }
}

/// All orders in which what is left can come.
fn orders(left: &mut [usize], order: &mut Vec<usize>, visit: &mut dyn FnMut(&[usize])) {
    if left.iter().all(|left| *left == 0) {
        return visit(order);
    }
    for who in 0..left.len() {
        if left[who] > 0 {
            left[who] -= 1;
            order.push(who);
            orders(left, order, visit);
            order.pop();
            left[who] += 1;
        }
    }
}

/// Plays every order; how many they were.
fn explore(programs: &[&[Command]], deaf: &[usize]) -> usize {
    let scene = Scene { programs, deaf };
    let mut stage = Stage::open(deaf);
    let mut left: Vec<_> = programs.iter().map(|program| program.len()).collect();
    orders(&mut left, &mut Vec::new(), &mut |order| {
        stage.play(&scene, order)
    });
    stage.locks
}

#[test]
fn three_who_wait_and_release() {
    let programs: [&[Command]; 3] = [&[Wait, Wait, Release]; 3];
    assert_eq!(explore(&programs, &[]), 1680);
}

#[test]
fn three_who_may_give_up() {
    let programs: [&[Command]; 3] = [
        &[Take, Release, Wait],
        &[Wait, Cancel, Wait],
        &[Wait, Cancel],
    ];
    assert_eq!(explore(&programs, &[]), 560);
}

#[test]
fn requests_that_come_after_their_claim_was_cancelled() {
    let programs: [&[Command]; 3] = [&[Wait, Bury, Wait], &[Bury, Wait, Release], &[Wait, Wait]];
    assert_eq!(explore(&programs, &[]), 560);
}

#[test]
fn leases_that_end() {
    let programs: [&[Command]; 4] = [
        &[Wait, Release],
        &[Wait, Cancel],
        &[Wait, Wait],
        &[Expire, Expire],
    ];
    assert_eq!(explore(&programs, &[]), 2520);
}

#[test]
fn processes_that_are_gone() {
    let programs: [&[Command]; 3] = [
        &[Wait, Wait, Release],
        &[Wait, Wait],
        &[Wait, Release, Wait],
    ];
    for deaf in [&[0][..], &[1], &[0, 1], &[0, 1, 2]] {
        assert_eq!(explore(&programs, deaf), 560);
    }
}

#[test]
fn clients_that_know_no_queue() {
    let programs: [&[Command]; 4] = [&[Take, Release], &[Take, Expire], &[Wait, Release], &[Wait]];
    assert_eq!(explore(&programs, &[3]), 630);
}
