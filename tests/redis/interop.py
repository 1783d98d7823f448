"""Locks and releases as it's ordered to: one order a line in, one event a line out."""

import sys

import redis
from redis.exceptions import LockError


def tell(event):
    print("@", event, flush=True)


client = redis.Redis(port=int(sys.argv[1]))
lock = client.lock("lock:row", timeout=30, sleep=0.01)
tell("ready")
for order in sys.stdin:
    match order.strip():
        case "acquire":
            tell("acquired" if lock.acquire(blocking_timeout=20) else "busy")
        case "try":
            tell("acquired" if lock.acquire(blocking=False) else "busy")
        case "release":
            try:
                lock.release()
                tell("released")
            except LockError:
                tell("not mine")
