//! What people see of the locks and do to them, on a real server.

mod asks;
mod names;
mod pooler;
mod recalls;
mod reports;
mod rights;
mod take;

use crate::config::Config;
use crate::engine::tests::registry::{Case, SHARED, cases, run};
use crate::engine::tests::space::Space;
use crate::engine::tests::topology::Topology;
use lock_test_support::pgbouncer::PgBouncer;
use lock_test_support::postgres::Postgres;
use lock_test_support::servers::Pooled;

const OWN: &[(&str, Case)] = cases! {
    asks:
        text_that_the_server_cannot_send_is_refused;
    names:
        names_that_begin_so_are_listed
        lock_with_many_holders_is_listed_once;
    pooler:
        operations_pass_a_pooler;
    recalls:
        three_waiters_of_a_queue_recall
        other_locks_are_not_recalled
        nothing_but_a_recall_comes_on_the_channel_that_others_know
        recalls_are_heard_again_after_the_connection_has_ended
        process_behind_a_pooler_recalls_and_hears_no_recall;
    reports:
        old_reports_vanish
        whatever_is_stored_is_read_in_part
        no_more_than_ten_thousand_are_read;
    rights:
        role_without_the_rights_of_operators_has_locks
        right_that_locks_need_is_named;
    take:
        taken_token_is_of_that_lock_alone
        lock_of_another_client_is_taken_by_its_text
        pinned_lock_is_free_when_the_transaction_has_ended
        tokens_that_were_taken_long_ago_are_forgotten;
};

#[test]
fn operations() {
    let topology = Topology {
        configure: |urls, prefix| Config::new(url_of(&urls[0], prefix)).prefix(prefix),
        refuses_far: true,
        longest_recalled: 1000,
        ..Topology::of("PostgreSQL", Pooled::from(Postgres::start()))
    };
    run(topology, &[SHARED, OWN]);
}

/// Returns the URL of a schema, by whose name the server knows the connections, too.
fn url_of(url: &str, prefix: &str) -> String {
    let schema = schema_of(prefix);
    format!("{url}?schema={schema}&application_name={schema}")
}

fn schema_of(prefix: &str) -> String {
    prefix.replace(':', "")
}

impl Space {
    /// Executes statements, which are written for the default schema, in the one of this part.
    fn execute(&self, statements: &str) {
        self.servers::<Pooled>()
            .server
            .execute(&self.sql(statements));
    }

    fn count(&self, table: &str) -> usize {
        let count = format!("SELECT count(*) FROM distributed_lock.{table}");
        self.servers::<Pooled>().server.query(&self.sql(&count))
    }

    fn sql(&self, statements: &str) -> String {
        statements.replace("distributed_lock", &schema_of(&self.prefix))
    }

    /// Returns the configuration of a process that uses this part by another path.
    fn config_at(&self, url: &str) -> Config {
        Config::new(url_of(url, &self.prefix)).prefix(&*self.prefix)
    }

    /// Starts a pooler in front of the server.
    fn pooler(&self) -> PgBouncer {
        PgBouncer::to(self.servers::<Pooled>().server.port())
    }
}
