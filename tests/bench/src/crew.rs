//! A contender in several processes, and several times in each if need be.

use crate::child::{Child, serve};
use crate::contenders::{Doing, Driver, Entrant, Who};
use crate::load::{Outcome, Plan, Until};
use crate::runtime::Flavor;
use std::sync::{Arc, Mutex};

pub const KIND: &str = "drive";

pub struct Crew {
    children: Mutex<Vec<Child>>,
}

impl Crew {
    /// Each process has so many clients: whatever waits in one of them knows nothing of the others.
    pub fn start(who: Who, processes: usize, clients: usize, url: &str) -> Crew {
        let arguments = [&who.to_string(), &clients.to_string(), url];
        let children = (0..processes).map(|_| Child::start(KIND, &arguments));
        Crew {
            children: Mutex::new(children.collect()),
        }
    }

    /// Each client follows the plan.
    pub fn follow(&self, plan: Plan) -> Vec<Outcome> {
        let mut children = self.children.lock().unwrap();
        let answers = Child::ask_all(&mut children, &plan.write());
        let outcomes = answers.iter().map(|answer| Outcome::read(answer));
        outcomes
            .map(|outcome| outcome.expect("an outcome"))
            .collect()
    }

    pub fn ids(&self) -> Vec<u32> {
        let children = self.children.lock().unwrap();
        children.iter().map(Child::id).collect()
    }
}

impl Driver for Crew {
    /// The tasks are spread over the processes.
    fn drive(&self, plan: Plan) -> Doing<'_, Outcome> {
        Box::pin(async move {
            let processes = self.children.lock().unwrap().len();
            let tasks = (plan.tasks / processes).max(1);
            together(plan, &self.follow(Plan { tasks, ..plan }))
        })
    }
}

pub fn together(plan: Plan, outcomes: &[Outcome]) -> Outcome {
    let began = outcomes.iter().map(|outcome| outcome.began).min();
    let ended = outcomes.iter().map(|outcome| outcome.ended).max();
    let (began, ended) = (began.unwrap_or_default(), ended.unwrap_or_default());
    Outcome {
        elapsed: match plan.until {
            Until::Time(time) => time,
            Until::Locks(_) => ended - began,
        },
        began,
        ended,
        cost: outcomes.iter().map(|outcome| outcome.cost).sum(),
        wait: outcomes.iter().map(|outcome| outcome.wait).sum(),
    }
}

pub fn child(arguments: &[String]) {
    let [who, clients, url] = arguments else {
        panic!("a contender, how many times, and a URL");
    };
    let who = Who::by_name(who).expect("a contender's name");
    let clients: usize = clients.parse().unwrap();
    let runtime = Flavor::Threads.build();
    let entrants: Vec<Arc<dyn Entrant>> = runtime.block_on(async {
        let mut entrants = Vec::new();
        for _ in 0..clients {
            entrants.push(who.connect(url).await.into());
        }
        entrants
    });
    serve(|plan| {
        let plan = Plan::read(plan).expect("a plan");
        let outcomes: Vec<Outcome> = runtime.block_on(async {
            let follow = |entrant: &Arc<dyn Entrant>| {
                let entrant = entrant.clone();
                tokio::spawn(async move { entrant.drive(plan).await })
            };
            let tasks: Vec<_> = entrants.iter().map(follow).collect();
            let mut outcomes = Vec::new();
            for task in tasks {
                outcomes.push(task.await.unwrap());
            }
            outcomes
        });
        together(plan, &outcomes).write()
    });
}
