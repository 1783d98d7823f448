//! Requests without a browser.

use bytes::Bytes;
use http::Request;
use lock_admin::Admin;
use lock_test_support::time::PATIENCE;
use std::future::poll_fn;
use std::pin::pin;
use tokio::time::timeout;

pub(crate) async fn get(admin: &Admin, path: &str) -> String {
    let request = Request::get(path).body(Bytes::new()).unwrap();
    let mut body = pin!(admin.handle(request).await.into_body());
    let mut text = Vec::new();
    while let Some(frame) =
        poll_fn(|context| http_body::Body::poll_frame(body.as_mut(), context)).await
    {
        text.extend_from_slice(&frame.unwrap().into_data().unwrap());
    }
    String::from_utf8(text).unwrap()
}

/// Looks at the page until it is as expected.
pub(crate) async fn until(admin: &Admin, expected: impl Fn(&str) -> bool) -> String {
    let looking = async {
        loop {
            let page = get(admin, "/").await;
            if expected(&page) {
                return page;
            }
        }
    };
    timeout(PATIENCE, looking).await.expect("it is seen")
}
