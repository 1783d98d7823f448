//! Child processes of this program, which reply to each order with a line.

use crate::process;
use std::io::{BufRead, BufReader, Write};
use std::process::{ChildStdin, ChildStdout, Command, Stdio};

/// The argument that distinguishes a child from the program that was started by hand.
pub const CHILD: &str = "--child";

/// Killed when dropped.
pub struct Child {
    process: std::process::Child,
    orders: ChildStdin,
    answers: BufReader<ChildStdout>,
}

impl Child {
    /// Starts a process of this program for that kind of work, and waits until it is ready.
    pub fn start(kind: &str, arguments: &[&str]) -> Child {
        Child::spawn(command(None), kind, arguments)
    }

    /// Starts a process of any program that follows orders.
    pub fn spawn(mut command: Command, kind: &str, arguments: &[&str]) -> Child {
        let mut process = command
            .arg(kind)
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut child = Child {
            orders: process.stdin.take().unwrap(),
            answers: BufReader::new(process.stdout.take().unwrap()),
            process,
        };
        assert_eq!(child.answer(), "ready");
        child
    }

    pub fn id(&self) -> u32 {
        self.process.id()
    }

    pub fn send(&mut self, order: &str) {
        writeln!(self.orders, "{order}").unwrap();
    }

    pub fn answer(&mut self) -> String {
        let mut answer = String::new();
        self.answers.read_line(&mut answer).unwrap();
        assert!(answer.ends_with('\n'), "a child has ended");
        answer.trim_end().to_owned()
    }

    pub fn ask(&mut self, order: &str) -> String {
        self.send(order);
        self.answer()
    }

    /// Sends an order to several children at the same time, and returns their replies.
    pub fn ask_all(children: &mut [Child], order: &str) -> Vec<String> {
        for child in &mut *children {
            child.send(order);
        }
        children.iter_mut().map(Child::answer).collect()
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Returns the command that starts a child of this program.
pub fn command(core: Option<usize>) -> Command {
    let program = std::env::current_exe().unwrap();
    let mut command = process::command(program.to_str().unwrap(), core);
    command.arg(CHILD);
    command
}

/// Runs a child: replies to orders until its input is closed.
pub fn serve(mut answer: impl FnMut(&str) -> String) {
    println!("ready");
    for order in std::io::stdin().lines() {
        println!("{}", answer(&order.unwrap()));
    }
}
