//! Free functions: arguments, generics, return types.

use std::error::Error;
use std::fmt::Display;
use std::rc::Rc;

use lock_runtime::{LockError, distributed_lock};

use super::{body, locks, under};

type Outcome<T> = Result<T, LockError>;

struct Order {
    id: u64,
    tenant: &'static str,
}

#[distributed_lock(key = "nothing")]
async fn nothing() -> Outcome<()> {
    body("nothing").await;
    Ok(())
}

#[distributed_lock(key = "value:<id>")]
async fn value(id: u64) -> Outcome<u64> {
    body("value:1").await;
    Ok(id)
}

#[distributed_lock(key = "mutable:{id}")]
async fn mutable(mut id: u64) -> Outcome<u64> {
    body("mutable:1").await;
    id += 1;
    Ok(id)
}

#[distributed_lock(key = "text:{text}")]
async fn text(text: &str) -> Outcome<&str> {
    body("text:a").await;
    Ok(text)
}

#[distributed_lock(key = "owned:<text>:<text.len()>")]
async fn owned(text: String) -> Outcome<String> {
    body("owned:abc:3").await;
    Ok(text)
}

#[distributed_lock(key = "longer:<first>:<second>")]
async fn longer<'a, 'b: 'a>(first: &'a str, second: &'b str) -> Outcome<&'a str> {
    body("longer:a:bc").await;
    Ok(if first.len() > second.len() {
        first
    } else {
        second
    })
}

#[distributed_lock(key = "grown:<items.len()>")]
async fn grown(items: &mut Vec<u64>) -> Outcome<&mut u64> {
    body("grown:1").await;
    items.push(7);
    Ok(&mut items[0])
}

#[distributed_lock(key = "pair:<a>:<b>")]
async fn pair((a, b): (u64, u64)) -> Outcome<u64> {
    body("pair:1:2").await;
    Ok(a + b)
}

#[distributed_lock(key = "fields:<tenant>:<id:04>")]
async fn fields(Order { id, tenant }: Order) -> Outcome<()> {
    body("fields:t:0001").await;
    let _ = (id, tenant);
    Ok(())
}

#[distributed_lock(key = "field:<order.tenant>:<order.id>")]
async fn field(order: &Order, _: u64) -> Outcome<()> {
    body("field:t:1").await;
    Ok(())
}

#[distributed_lock(key = "array:<ids[0]>:<N>")]
async fn array<const N: usize>(ids: [u64; N]) -> Outcome<u64> {
    body("array:1:3").await;
    Ok(ids.iter().sum())
}

#[distributed_lock(key = "generic:<id>")]
async fn generic<T, U>(id: &T, other: U) -> Outcome<(T, U)>
where
    T: Clone + Display,
    U: Send + 'static,
{
    body("generic:1").await;
    Ok((id.clone(), other))
}

#[distributed_lock(key = "anything:<id>")]
async fn anything(id: impl Display + Copy) -> Outcome<String> {
    body("anything:1").await;
    Ok(id.to_string())
}

#[distributed_lock(key = "some:<id>")]
async fn some(id: u64) -> Outcome<impl Display + use<>> {
    body("some:1").await;
    Ok(id)
}

#[distributed_lock(key = "opaque:<id>")]
async fn opaque(id: u64) -> impl IntoIterator<Item = u64> {
    body("opaque:1").await;
    Outcome::Ok(id)
}

#[distributed_lock(key = "closure:<id>")]
async fn closure(id: u64) -> Outcome<impl Fn() -> u64> {
    body("closure:1").await;
    Ok(move || id)
}

#[distributed_lock(key = "coerced:<id>")]
async fn coerced(id: u64) -> Outcome<Box<dyn Fn() -> u64>> {
    body("coerced:1").await;
    Ok(Box::new(move || id))
}

#[distributed_lock(key = "inferred")]
async fn inferred() -> Outcome<Vec<u64>> {
    body("inferred").await;
    Ok("1 2"
        .split(' ')
        .filter_map(|text| text.parse().ok())
        .collect())
}

#[distributed_lock(key = "any_error:<text>")]
async fn any_error(text: &str) -> anyhow::Result<u64> {
    body("any_error:x").await;
    if text.is_empty() {
        return Ok(0);
    }
    Ok(text.parse()?)
}

#[distributed_lock(key = "boxed_error:<text>")]
async fn boxed_error(text: &str) -> Result<u64, Box<dyn Error + Send + Sync>> {
    body("boxed_error:1").await;
    Ok(text.parse()?)
}

#[distributed_lock(key = "not_send:<id>")]
async fn not_send(id: Rc<u64>) -> Outcome<u64> {
    body("not_send:1").await;
    Ok(*id)
}

/// Documented.
#[must_use = "it reports the result"]
#[inline]
#[distributed_lock(key = "attributes")]
pub(crate) async fn attributes() -> Outcome<()> {
    #![allow(clippy::unit_arg)]
    Ok(body("attributes").await)
}

/// # Safety
/// None is needed.
#[distributed_lock(key = "dangerous")]
async unsafe fn dangerous() -> Outcome<()> {
    body("dangerous").await;
    Ok(())
}

#[distributed_lock(key = "down:<n>")]
async fn down(n: u64) -> Outcome<u64> {
    body(&format!("down:{n}")).await;
    if n == 0 {
        Ok(0)
    } else {
        Ok(1 + Box::pin(down(n - 1)).await?)
    }
}

macro_rules! function {
    ($name:ident($argument:ident: $type:ty), $key:literal, $body:block) => {
        #[distributed_lock(key = $key, ttl = "30s")]
        async fn $name($argument: $type) -> Outcome<$type> $body
    };
}

function!(made(id: u64), "made:<id>", {
    body("made:1").await;
    Ok(id)
});

function!(made_plainly(id: u64), "made_plainly:{id}", {
    body("made_plainly:1").await;
    Ok(id)
});

macro_rules! whole {
    ($name:ident) => {
        #[distributed_lock(key = "whole:<id>")]
        async fn $name(id: u64) -> Outcome<u64> {
            body("whole:1").await;
            Ok(id)
        }
    };
}

whole!(whole);

#[tokio::test]
async fn every_kind_of_argument_is_accepted() -> Outcome<()> {
    under("nothing", nothing()).await?;
    assert_eq!(under("value:1", value(1)).await?, 1);
    assert_eq!(under("mutable:1", mutable(1)).await?, 2);
    assert_eq!(under("text:a", text("a")).await?, "a");
    assert_eq!(under("owned:abc:3", owned("abc".into())).await?, "abc");
    assert_eq!(under("longer:a:bc", longer("a", "bc")).await?, "bc");
    let mut items = vec![1];
    *under("grown:1", grown(&mut items)).await? += 1;
    assert_eq!(items, [2, 7]);
    assert_eq!(under("pair:1:2", pair((1, 2))).await?, 3);
    under("fields:t:0001", fields(Order { id: 1, tenant: "t" })).await?;
    under("field:t:1", field(&Order { id: 1, tenant: "t" }, 2)).await?;
    Ok(())
}

#[tokio::test]
async fn generic_functions_are_accepted() -> Outcome<()> {
    assert_eq!(under("array:1:3", array([1, 2, 3])).await?, 6);
    assert_eq!(under("generic:1", generic(&1, "x")).await?, (1, "x"));
    assert_eq!(under("anything:1", anything(1)).await?, "1");
    Ok(())
}

#[tokio::test]
async fn every_return_type_is_accepted() -> Result<(), Box<dyn Error + Send + Sync>> {
    assert_eq!(under("some:1", some(1)).await?.to_string(), "1");
    assert_eq!(
        under("opaque:1", opaque(1))
            .await
            .into_iter()
            .collect::<Vec<_>>(),
        [1]
    );
    assert_eq!(under("closure:1", closure(1)).await?(), 1);
    assert_eq!(under("coerced:1", coerced(1)).await?(), 1);
    assert_eq!(under("inferred", inferred()).await?, [1, 2]);
    assert!(under("any_error:x", any_error("x")).await.is_err());
    assert_eq!(under("boxed_error:1", boxed_error("1")).await?, 1);
    Ok(())
}

#[tokio::test]
async fn every_kind_of_function_is_accepted() -> Outcome<()> {
    assert_eq!(under("not_send:1", not_send(Rc::new(1))).await?, 1);
    under("attributes", attributes()).await?;
    under("dangerous", unsafe { dangerous() }).await?;
    assert_eq!(
        under("down:2", under("down:1", under("down:0", down(2)))).await?,
        2
    );
    assert_eq!(under("made:1", made(1)).await?, 1);
    assert_eq!(under("made_plainly:1", made_plainly(1)).await?, 1);
    assert_eq!(under("whole:1", whole(1)).await?, 1);
    Ok(())
}

#[tokio::test]
async fn futures_of_annotated_functions_are_send() -> Outcome<()> {
    locks().await;
    let call = tokio::spawn(under("sent:1", async {
        #[distributed_lock(key = "sent:<id>")]
        async fn sent(id: &u64) -> Outcome<u64> {
            body("sent:1").await;
            Ok(*id)
        }
        sent(&1).await
    }));
    assert_eq!(call.await.unwrap()?, 1);
    Ok(())
}
