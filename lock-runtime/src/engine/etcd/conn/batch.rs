//! Transactions that are sent as one while another is under way: a server needs more time for each than for
//! what it does.

use crate::engine::etcd::wire::error::Failure;
use crate::engine::etcd::wire::messages::{TxnRequest, TxnResponse};
use crate::engine::etcd::wire::txn;
use crate::util::first_of::first_of;
use crate::util::sync::{Mutex, MutexGuard};
use prost::Message;
use prost::bytes::Bytes;
use std::collections::HashSet;
use std::future::Future;
use tokio::sync::oneshot;

/// The greatest number of transactions in one: servers allow 128 operations, and those of the parts count,
/// too.
const MAX_PARTS: usize = 60;

/// The greatest number of bytes in one request, far below the size that servers accept.
const MAX_BYTES: usize = 512 << 10;

/// The transactions that wait to be sent on a connection.
#[derive(Default)]
pub(crate) struct Batch {
    waiting: Mutex<Vec<Part>>,
    /// Held by the task that sends.
    sending: tokio::sync::Mutex<()>,
}

struct Part {
    request: TxnRequest,
    /// The lines that it may enter.
    lines: Vec<Bytes>,
    reply: oneshot::Sender<Result<TxnResponse, Failure>>,
}

impl Batch {
    /// Executes the transaction, together with others that wait meanwhile. All conditions are looked at
    /// before any of them writes, so a line is entered by one of them at most; and what one reads may contain
    /// what another wrote.
    pub(crate) async fn execute<S>(
        &self,
        request: TxnRequest,
        lines: Vec<Bytes>,
        send: impl Fn(TxnRequest) -> S,
    ) -> Result<TxnResponse, Failure>
    where
        S: Future<Output = Result<TxnResponse, Failure>>,
    {
        let (sender, mut reply) = oneshot::channel();
        self.waiting().push(Part {
            request,
            lines,
            reply: sender,
        });
        loop {
            match first_of(&mut reply, self.sending.lock()).await {
                Ok(reply) => {
                    let panicked = |_| Err(Failure::no_reply("the request panicked"));
                    return reply.unwrap_or_else(panicked);
                }
                Err(_turn) => send_together(self.next(), &send).await,
            }
        }
    }

    fn waiting(&self) -> MutexGuard<'_, Vec<Part>> {
        self.waiting.lock()
    }

    /// Takes the transactions that have waited longest, and that can be sent together.
    fn next(&self) -> Vec<Part> {
        let (mut lines, mut bytes, mut count) = (HashSet::new(), 0, 0);
        let mut waiting = self.waiting();
        let fits = |part: &mut Part| {
            count += 1;
            bytes += part.request.encoded_len();
            let is_small = count == 1 || count <= MAX_PARTS && bytes <= MAX_BYTES;
            is_small && part.lines.iter().all(|line| lines.insert(line.clone()))
        };
        waiting.extract_if(.., fits).collect()
    }
}

async fn send_together<S>(parts: Vec<Part>, send: &impl Fn(TxnRequest) -> S)
where
    S: Future<Output = Result<TxnResponse, Failure>>,
{
    if parts.len() > 1 {
        let requests = parts.iter().map(|part| part.request.clone());
        let all = TxnRequest {
            success: requests.map(txn::within).collect(),
            ..TxnRequest::default()
        };
        match send(all).await {
            Ok(reply) => {
                for (part, reply) in parts.into_iter().zip(reply.parts()) {
                    let _ = part.reply.send(Ok(reply));
                }
                return;
            }
            Err(failure) if failure.may_have_run() => {
                let words = failure.into_engine_error().to_string();
                for part in parts {
                    let _ = part.reply.send(Err(Failure::no_reply(&*words)));
                }
                return;
            }
            // The server refuses one of them, and has carried none out.
            Err(_) => {}
        }
    }
    for part in parts {
        let _ = part.reply.send(send(part.request).await);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::etcd::wire::error::Status;
    use crate::engine::etcd::wire::messages::{Op, OpReply, RequestOp, ResponseOp};
    use crate::util::join_all::join_all;
    use tokio::task::yield_now;

    fn part(key: &'static str) -> TxnRequest {
        TxnRequest {
            success: vec![txn::get(Bytes::from_static(key.as_bytes()))],
            ..TxnRequest::default()
        }
    }

    /// Returns the keys that a transaction reads, those of its parts in brackets.
    fn words(request: &TxnRequest) -> String {
        let word = |op: &RequestOp| match &op.request {
            Some(Op::Range(range)) => String::from_utf8_lossy(&range.key).into_owned(),
            Some(Op::Txn(part)) => format!("[{}]", words(part)),
            _ => String::new(),
        };
        request.success.iter().map(word).collect()
    }

    fn reply(request: &TxnRequest) -> TxnResponse {
        let part = |op: &RequestOp| match &op.request {
            Some(Op::Txn(part)) => Some(ResponseOp {
                response: Some(OpReply::Txn(reply(part))),
            }),
            _ => None,
        };
        TxnResponse {
            succeeded: !words(request).contains("refused"),
            responses: request.success.iter().filter_map(part).collect(),
            ..TxnResponse::default()
        }
    }

    /// Sends these keys and lines, and returns what was sent, and whether each part succeeded.
    async fn sent(
        parts: &[(&'static str, &'static str)],
        refuse_parts: bool,
    ) -> (Vec<String>, Vec<bool>) {
        let (batch, log) = (Batch::default(), std::sync::Mutex::new(Vec::new()));
        let send = |request: TxnRequest| {
            let log = &log;
            async move {
                let words = words(&request);
                let refused = refuse_parts && words.contains('[');
                log.lock().unwrap().push(words);
                yield_now().await;
                match refused {
                    true => Err(Failure::Status(Status {
                        code: 5,
                        message: "requested lease not found".to_owned(),
                    })),
                    false => Ok(reply(&request)),
                }
            }
        };
        let executed = parts.iter().map(|(key, line)| {
            let lines = (!line.is_empty()).then(|| Bytes::from_static(line.as_bytes()));
            batch.execute(part(key), lines.into_iter().collect(), send)
        });
        let replies = join_all(executed).await;
        let succeeded = replies.into_iter().map(|reply| reply.unwrap().succeeded);
        let succeeded = succeeded.collect();
        (log.into_inner().unwrap(), succeeded)
    }

    #[tokio::test]
    async fn what_waits_is_sent_together_but_one_entry_to_each_line() {
        let parts = [
            ("a", "x"),
            ("b", "x"),
            ("refused", "y"),
            ("c", "x"),
            ("d", ""),
            ("e", ""),
        ];
        let (log, replies) = sent(&parts, false).await;
        assert_eq!(log, ["a", "[b][refused][d][e]", "c"]);
        assert_eq!(replies, [true, true, false, true, true, true]);
    }

    #[tokio::test]
    async fn parts_that_are_refused_together_are_sent_alone() {
        let (log, replies) = sent(&[("a", ""), ("b", ""), ("c", "")], true).await;
        assert_eq!(log, ["a", "[b][c]", "b", "c"]);
        assert_eq!(replies, [true; 3]);
    }

    #[tokio::test]
    async fn a_transaction_has_few_parts() {
        let parts = [("a", ""); 2 + MAX_PARTS];
        let (log, _) = sent(&parts, false).await;
        let counts: Vec<_> = log.iter().map(|words| words.matches('[').count()).collect();
        assert_eq!(counts, [0, MAX_PARTS, 0]);
    }
}
