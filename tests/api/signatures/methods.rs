//! Methods: receivers, traits, `#[async_trait]`.

use std::fmt::Display;
use std::pin::Pin;
use std::sync::Arc;

use async_trait::async_trait;
use lock_runtime::{LockError, distributed_lock};

use super::{body, under};

type Outcome<T> = Result<T, LockError>;

#[derive(Clone, Debug, PartialEq)]
struct Shop<T> {
    tenant: &'static str,
    stock: Vec<T>,
}

fn shop() -> Shop<u64> {
    Shop {
        tenant: "t",
        stock: vec![1, 2],
    }
}

impl<T: Display + Send + Sync> Shop<T> {
    const KIND: &'static str = "shop";

    #[distributed_lock(key = "associated:<Self::KIND>:<stock.len()>")]
    async fn associated(stock: Vec<T>) -> Outcome<Self> {
        body("associated:shop:2").await;
        Ok(Self { tenant: "t", stock })
    }

    #[distributed_lock(key = "shared:{self.tenant}:<index>")]
    async fn shared(&self, index: usize) -> Outcome<&T> {
        body("shared:t:1").await;
        Ok(&self.stock[index])
    }

    #[distributed_lock(key = "shared_by:<who>")]
    async fn shared_by<'a>(&'a self, who: &str) -> Outcome<&'a str> {
        body("shared_by:me").await;
        Ok(if who.is_empty() {
            "nobody"
        } else {
            self.tenant
        })
    }

    #[distributed_lock(key = "exclusive:<self.tenant>")]
    async fn exclusive(&mut self) -> Outcome<&mut T> {
        body("exclusive:t").await;
        self.tenant = "u";
        Ok(&mut self.stock[0])
    }

    #[distributed_lock(key = "consumed:<self.tenant>")]
    async fn consumed(mut self) -> Outcome<Self> {
        body("consumed:t").await;
        self.stock.clear();
        Ok(self)
    }

    #[distributed_lock(key = "counted:<self.tenant>")]
    async fn counted(self: Arc<Self>) -> Outcome<usize> {
        body("counted:t").await;
        Ok(Arc::strong_count(&self))
    }

    #[distributed_lock(key = "boxed:<self.tenant>")]
    async fn boxed(self: Box<Self>) -> Outcome<Self> {
        body("boxed:t").await;
        Ok(*self)
    }

    #[distributed_lock(key = "pinned:<self.tenant>")]
    async fn pinned(self: Pin<&mut Self>) -> Outcome<&'static str> {
        body("pinned:t").await;
        Ok(self.tenant)
    }

    #[distributed_lock(key = "by_reference:<self.tenant>")]
    async fn by_reference(self: &Arc<Self>) -> Outcome<Arc<Self>> {
        body("by_reference:t").await;
        Ok(Arc::clone(self))
    }
}

#[allow(async_fn_in_trait, reason = "the trait is private")]
trait Clerk {
    const NAME: &'static str;

    async fn required(&self, id: u64) -> Outcome<u64>;

    fn future(&self, id: u64) -> impl Future<Output = Outcome<u64>> + Send;

    #[distributed_lock(key = "default:<Self::NAME>:<id>")]
    async fn default(&self, id: u64) -> Outcome<u64> {
        body("default:clerk:1").await;
        self.required(id).await
    }
}

impl<T: Sync> Clerk for Shop<T> {
    const NAME: &'static str = "clerk";

    #[distributed_lock(key = "required:{id}")]
    async fn required(&self, id: u64) -> Outcome<u64> {
        body("required:1").await;
        Ok(id)
    }

    #[distributed_lock(key = "future:{id}")]
    async fn future(&self, id: u64) -> Outcome<u64> {
        body("future:1").await;
        Ok(id)
    }
}

#[async_trait]
trait Agent {
    type Goods: Send;

    async fn dynamic(&self, id: u64) -> Outcome<u64>;

    async fn generic<T: Display + Send>(&mut self, id: T) -> Outcome<Self::Goods>
    where
        Self: Sized;

    async fn pattern(&self, pair: (u64, u64)) -> Outcome<u64>;

    #[distributed_lock(key = "dynamic_default:<id>")]
    async fn dynamic_default(&self, id: u64) -> Outcome<u64> {
        body("dynamic_default:1").await;
        self.dynamic(id).await
    }
}

#[async_trait]
impl Agent for Shop<u64> {
    type Goods = Vec<u64>;

    #[distributed_lock(key = "dynamic:<self.tenant>:<id>")]
    async fn dynamic(&self, id: u64) -> Outcome<u64> {
        body("dynamic:t:1").await;
        let known: u64 = "1".parse().map_err(anyhow::Error::from).unwrap_or_default();
        Ok(known.max(id))
    }

    #[distributed_lock(key = "dynamic_generic:<id>")]
    async fn generic<T: Display + Send>(&mut self, id: T) -> Outcome<Self::Goods> {
        body("dynamic_generic:x").await;
        self.tenant = "u";
        drop(id);
        Ok(std::mem::take(&mut self.stock))
    }

    #[distributed_lock(key = "dynamic_pattern")]
    async fn pattern(&self, (a, b): (u64, u64)) -> Outcome<u64> {
        body("dynamic_pattern").await;
        Ok(a + b)
    }
}

#[async_trait(?Send)]
trait Local {
    async fn local(&self) -> Outcome<()>;
}

#[async_trait(?Send)]
impl Local for std::rc::Rc<u64> {
    #[distributed_lock(key = "local:<self>")]
    async fn local(&self) -> Outcome<()> {
        body("local:1").await;
        Ok(())
    }
}

#[tokio::test]
async fn every_receiver_is_accepted() -> Outcome<()> {
    assert_eq!(
        under("associated:shop:2", Shop::associated(vec![1, 2])).await?,
        shop()
    );
    assert_eq!(under("shared:t:1", shop().shared(1)).await?, &2);
    assert_eq!(under("shared_by:me", shop().shared_by("me")).await?, "t");
    let mut changed = shop();
    *under("exclusive:t", changed.exclusive()).await? += 1;
    assert_eq!((changed.tenant, changed.stock), ("u", vec![2, 2]));
    assert!(
        under("consumed:t", shop().consumed())
            .await?
            .stock
            .is_empty()
    );
    assert_eq!(under("counted:t", Arc::new(shop()).counted()).await?, 1);
    assert_eq!(under("boxed:t", Box::new(shop()).boxed()).await?, shop());
    assert_eq!(
        under("pinned:t", Pin::new(&mut shop()).pinned()).await?,
        "t"
    );
    assert_eq!(
        *under("by_reference:t", Arc::new(shop()).by_reference()).await?,
        shop()
    );
    Ok(())
}

#[tokio::test]
async fn trait_methods_are_accepted() -> Outcome<()> {
    let shop = shop();
    assert_eq!(under("required:1", Clerk::required(&shop, 1)).await?, 1);
    assert_eq!(under("future:1", shop.future(1)).await?, 1);
    assert_eq!(
        under("default:clerk:1", under("required:1", shop.default(1))).await?,
        1
    );
    Ok(())
}

#[tokio::test]
async fn async_trait_methods_are_accepted() -> Outcome<()> {
    let mut shop = shop();
    assert_eq!(under("dynamic:t:1", shop.dynamic(1)).await?, 1);
    assert_eq!(
        under(
            "dynamic_default:1",
            under("dynamic:t:1", shop.dynamic_default(1))
        )
        .await?,
        1
    );
    assert_eq!(under("dynamic_pattern", shop.pattern((1, 2))).await?, 3);
    assert_eq!(under("dynamic_generic:x", shop.generic("x")).await?, [1, 2]);
    under("local:1", std::rc::Rc::new(1).local()).await?;
    Ok(())
}
