#!/bin/sh
# Orders a teapot each half second, and has it shipped by three calls at once, on whichever replicas: one ships it.
while true; do
    id=$(curl -sS -d '{"item": "teapot"}' -H 'content-type: application/json' http://orders:8080/orders |
        sed -n 's/.*"id":\([0-9]*\).*/\1/p')
    [ -z "$id" ] || for _ in 1 2 3; do
        curl -sS -o /dev/null -X POST "http://orders:8080/orders/$id/ship" &
    done
    sleep 0.5
done
