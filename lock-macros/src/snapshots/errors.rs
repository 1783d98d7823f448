pub fn pay(id: u64) -> u64 {
    id
}
::core::compile_error! {
    "`kye` is not an option of `#[distributed_lock]`\nhelp: did you mean `key`?"
}
::core::compile_error! {
    "`ttl` needs a unit\nhelp: write for example `\"250ms\"`, `\"30s\"`, `\"1m 30s\"` or `\"2h\"`"
}
::core::compile_error! {
    "`#[distributed_lock]` needs an `async fn`\nhelp: if another attribute removes `async`, as `#[tokio::main]` does, put `#[distributed_lock]` above it"
}
