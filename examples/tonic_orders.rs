//! A service for orders, on tonic (gRPC). Any number of instances may share one database and one Redis; each
//! order is shipped once.
//!
//! ```text
//! export LOCK_URL=redis://127.0.0.1/
//! cargo run --features full --example tonic_orders -- --port 8080    # in one terminal
//! cargo run --features full --example tonic_orders -- --port 8081    # in another
//! call() { grpcurl -plaintext -proto examples/orders_rpc/orders.proto -d "$1" "$2" "$3"; }
//! call '{"item": "teapot"}' localhost:8080 orders.Orders/Create
//! call '{"id": 1}' localhost:8080 orders.Orders/Ship & call '{"id": 1}' localhost:8081 orders.Orders/Ship
//! ```

mod orders;
mod orders_rpc;

use lock_runtime::distributed_lock;
use orders::{Options, OrderError, Orders, asked_to_stop};
use orders_rpc::orders_server::{self, OrdersServer};
use orders_rpc::{NewOrder, Order, OrderId};
use tokio::net::TcpListener;
use tonic::transport::Server;
use tonic::transport::server::TcpIncoming;
use tonic::{Code, Request, Response, Status};

const REQUESTS: &str = "\
Requests:
  orders.Orders/Create  {\"item\": \"teapot\"}
  orders.Orders/Find    {\"id\": 1}
  orders.Orders/Ship    {\"id\": 1}";

struct Service {
    orders: Orders,
}

#[tonic::async_trait]
impl orders_server::Orders for Service {
    async fn create(&self, request: Request<NewOrder>) -> Result<Response<Order>, Status> {
        let NewOrder { item } = request.into_inner();
        let order = self.orders.create(orders::NewOrder { item }).await?;
        Ok(Response::new(order.into()))
    }

    async fn find(&self, request: Request<OrderId>) -> Result<Response<Order>, Status> {
        let order = self.orders.find(request.get_ref().id).await?;
        Ok(Response::new(order.into()))
    }

    #[distributed_lock(key = "order:<request.get_ref().id>", ttl = "10s", wait = "5s")]
    async fn ship(&self, request: Request<OrderId>) -> Result<Response<Order>, Status> {
        let order = self.orders.ship(request.get_ref().id).await?;
        Ok(Response::new(order.into()))
    }
}

impl From<orders::Order> for Order {
    fn from(order: orders::Order) -> Order {
        Order {
            id: order.id,
            item: order.item,
            shipped: order.shipped,
            parcels: order.parcels,
        }
    }
}

impl From<OrderError> for Status {
    fn from(error: OrderError) -> Status {
        let code = match error {
            OrderError::Lock(error) => return error.into(),
            OrderError::Unknown(_) => Code::NotFound,
            OrderError::Shipped(_) => Code::FailedPrecondition,
            OrderError::Internal(ref cause) => {
                eprintln!("{cause}");
                Code::Internal
            }
        };
        Status::new(code, error.to_string())
    }
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let options = Options::from_args("tonic_orders", REQUESTS)?;
    lock_runtime::init(options.lock).await?;
    let orders = orders::open(&options.database).await?;

    let listener = TcpListener::bind((options.listen, options.port)).await?;
    println!("listening on http://{}", listener.local_addr()?);
    let connections = TcpIncoming::from(listener).with_nodelay(Some(true));
    Server::builder()
        .add_service(OrdersServer::new(Service { orders }))
        .serve_with_incoming_shutdown(connections, asked_to_stop())
        .await?;
    // After the last request, so that its locks are released before the process ends.
    lock_runtime::shutdown().await;
    println!("stopped");
    Ok(())
}
