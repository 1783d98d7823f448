//! A contender in processes of its own, so that connections of other contenders do not share its threads.

use crate::child::{Child, serve};
use crate::contenders::{AnyContender, ContenderKind};
use crate::load::{Outcome, Plan, Until};
use crate::process;
use crate::runtime::Flavor;
use std::sync::Arc;
use std::time::Duration;

pub const KIND: &str = "drive";

pub struct ProcessGroup {
    pub children: Vec<Child>,
}

#[derive(Clone, Copy, Debug)]
pub struct Size {
    pub processes: usize,
    /// The number of clients of each process; they share nothing.
    pub clients: usize,
    pub flavor: Flavor,
    /// The core that the processes run on; any if `None`.
    pub core: Option<usize>,
}

impl Size {
    pub fn processes(processes: usize) -> Size {
        Size {
            processes,
            clients: 1,
            flavor: Flavor::Threads,
            core: None,
        }
    }
}

impl ProcessGroup {
    pub fn start(contender: ContenderKind, size: Size, url: &str) -> ProcessGroup {
        let words = [
            contender.to_string(),
            size.clients.to_string(),
            size.flavor.to_string(),
        ];
        let [name, clients, flavor] = &words;
        let command = || contender.command(size.core);
        let child = |_| Child::spawn(command(), KIND, &[name, clients, flavor, url]);
        ProcessGroup {
            children: (0..size.processes).map(child).collect(),
        }
    }

    /// Runs the plan with its tasks spread over the processes.
    pub fn drive(&mut self, plan: Plan) -> Outcome {
        let tasks = (plan.tasks / self.children.len()).max(1);
        together(plan, &self.follow(Plan { tasks, ..plan }))
    }

    /// Runs the plan in each client of each process.
    pub fn follow(&mut self, plan: Plan) -> Vec<Outcome> {
        self.begin(plan);
        self.end()
    }

    pub fn begin(&mut self, plan: Plan) {
        for child in &mut self.children {
            child.send(&plan.write());
        }
    }

    pub fn end(&mut self) -> Vec<Outcome> {
        let outcome = |child: &mut Child| Outcome::read(&child.answer()).expect("an outcome");
        self.children.iter_mut().map(outcome).collect()
    }

    pub fn cpu(&self) -> Duration {
        self.children
            .iter()
            .map(|child| process::cpu(child.id()))
            .sum()
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
        body: outcomes.iter().map(|outcome| outcome.body).sum(),
    }
}

pub fn child(arguments: &[String]) {
    let [contender, clients, flavor, url] = arguments else {
        panic!("expected a contender, a number of clients, a runtime and a URL");
    };
    let contender = ContenderKind::by_name(contender).expect("a contender's name");
    let clients: usize = clients.parse().unwrap();
    let runtime = Flavor::by_name(flavor).expect("a runtime").build();
    let connected: Vec<Arc<dyn AnyContender>> = runtime.block_on(async {
        let mut connected = Vec::new();
        for _ in 0..clients {
            connected.push(contender.connect(url).await.into());
        }
        connected
    });
    serve(|plan| {
        let plan = Plan::read(plan).expect("a plan");
        let outcomes: Vec<Outcome> = runtime.block_on(async {
            let follow = |client: &Arc<dyn AnyContender>| {
                let client = client.clone();
                tokio::spawn(async move { client.drive(plan).await })
            };
            let tasks: Vec<_> = connected.iter().map(follow).collect();
            let mut outcomes = Vec::new();
            for task in tasks {
                outcomes.push(task.await.unwrap());
            }
            outcomes
        });
        together(plan, &outcomes).write()
    });
}
