//! A scheduler that advances time only when no other task can run.

use shuttle::scheduler::{Schedule, Scheduler, Task, TaskId};

/// The task that advances time: the first task spawned.
const TIME: usize = 1;

pub(crate) struct TimeLast<S>(pub(crate) S);

impl<S: Scheduler> Scheduler for TimeLast<S> {
    fn new_execution(&mut self) -> Option<Schedule> {
        self.0.new_execution()
    }

    fn next_task(
        &mut self,
        runnable: &[&Task],
        current: Option<TaskId>,
        is_yielding: bool,
    ) -> Option<TaskId> {
        let time = TaskId::from(TIME);
        let others: Vec<&Task> = runnable
            .iter()
            .copied()
            .filter(|task| task.id() != time)
            .collect();
        match others.is_empty() {
            true => Some(time),
            false => self.0.next_task(&others, current, is_yielding),
        }
    }

    fn next_u64(&mut self) -> u64 {
        self.0.next_u64()
    }
}
