//! Parts of transactions.

use crate::engine::etcd::wire::messages::{
    Compare, DeleteRequest, Op, Operand, PutRequest, RangeRequest, RequestOp, TxnRequest,
};
use prost::bytes::Bytes;

const EQUAL: i32 = 0;
const LESS: i32 = 2;
const CREATE: i32 = 1;
const VALUE: i32 = 3;

pub(crate) fn put(put: PutRequest) -> RequestOp {
    RequestOp {
        request: Some(Op::Put(put)),
    }
}

pub(crate) fn delete(key: Bytes) -> RequestOp {
    RequestOp {
        request: Some(Op::Delete(DeleteRequest { key })),
    }
}

/// Executes a transaction as a part of another.
pub(crate) fn within(part: TxnRequest) -> RequestOp {
    RequestOp {
        request: Some(Op::Txn(part)),
    }
}

/// Reads one key.
pub(crate) fn get(key: Bytes) -> RequestOp {
    RequestOp {
        request: Some(Op::Range(RangeRequest {
            key,
            ..RangeRequest::default()
        })),
    }
}

/// Reads all keys of a range in the order of their creation.
pub(crate) fn range(line: &(Bytes, Bytes)) -> RequestOp {
    RequestOp {
        request: Some(Op::Range(RangeRequest::in_order(line))),
    }
}

/// There is no such key.
pub(crate) fn is_absent(key: Bytes) -> Compare {
    Compare {
        result: EQUAL,
        target: CREATE,
        key,
        operand: Some(Operand::CreateRevision(0)),
        range_end: Bytes::new(),
    }
}

/// There is no key in the range.
pub(crate) fn is_empty((key, range_end): &(Bytes, Bytes)) -> Compare {
    Compare {
        range_end: range_end.clone(),
        ..is_absent(key.clone())
    }
}

/// No key of the range has been created after that revision.
pub(crate) fn has_no_newer((key, range_end): &(Bytes, Bytes), revision: i64) -> Compare {
    Compare {
        result: LESS,
        target: CREATE,
        key: key.clone(),
        operand: Some(Operand::CreateRevision(revision + 1)),
        range_end: range_end.clone(),
    }
}

/// The key is there since the write of that revision.
pub(crate) fn was_created_at(key: Bytes, revision: i64) -> Compare {
    Compare {
        operand: Some(Operand::CreateRevision(revision)),
        ..is_absent(key)
    }
}

pub(crate) fn has_value(key: Bytes, value: Bytes) -> Compare {
    Compare {
        result: EQUAL,
        target: VALUE,
        key,
        operand: Some(Operand::Value(value)),
        range_end: Bytes::new(),
    }
}
