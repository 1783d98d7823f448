//! A claim as the ensemble stores it: a child of the lock's node, whose name has its token, its limit and its
//! number.

use crate::engine::common::line::{Entry, Line};
use crate::engine::token::Token;
use crate::error::Holder;
use crate::limit::Limit;

/// Where a token stands in its name: behind `_c_`, with hyphens, as Curator writes the identity of a claim.
const ID_LENGTH: usize = 36;

/// A child of the node of a lock.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Child {
    /// The last component of its path.
    pub(crate) name: String,
    number: i32,
    limit: Limit,
    /// The token that its data has since it was downgraded.
    downgraded: Option<Token>,
}

/// Returns the beginning of the name of a claim's node. Curator's begin and end in the same way.
pub(crate) fn stem(token: Token) -> String {
    let mut buffer = [0; 37];
    let text = token.encode(&mut buffer);
    let (id, limit) = text
        .split_once('/')
        .map_or((text, None), |(id, n)| (id, Some(n)));
    let part = |from, to| id.get(from..to).unwrap_or_default();
    let id = [
        part(0, 8),
        part(8, 12),
        part(12, 16),
        part(16, 20),
        part(20, 32),
    ]
    .join("-");
    match limit {
        Some(limit) => format!("_c_{id}-{limit}-lock-"),
        None => format!("_c_{id}-lock-"),
    }
}

impl Entry for Child {
    fn limit(&self) -> Limit {
        self.limit
    }

    fn token(&self) -> Option<Token> {
        self.downgraded.or_else(|| self.named())
    }
}

impl Child {
    /// Parses the name of a child. A child without a number is no claim.
    pub(crate) fn parse(name: &str) -> Option<Child> {
        let digits = name.len().checked_sub(10)?;
        let (stem, digits) = (name.get(..digits)?, name.get(digits..)?);
        // A number that has passed 2³¹ is negative.
        let number = match stem.ends_with("--") {
            true => format!("-{digits}").parse().ok()?,
            false => digits.parse().ok()?,
        };
        Some(Child {
            name: name.to_owned(),
            number,
            limit: limit_of(stem),
            downgraded: None,
        })
    }

    /// Returns the token in the name.
    pub(crate) fn named(&self) -> Option<Token> {
        let id = self.name.strip_prefix("_c_")?.get(..ID_LENGTH)?;
        Some(Token::parse(id)?.with_limit(self.limit))
    }

    /// Returns the token as text. The name identifies another client: if it is Curator's, people know it as
    /// it is.
    pub(crate) fn text(&self) -> Box<str> {
        let token = self.token().filter(|token| {
            let is_foreign = token.holder() == Holder::AnotherClient;
            !(is_foreign && token.limit().is_exclusive())
        });
        let text = |token: Token| token.encode(&mut [0; 37]).into();
        token.map_or_else(|| self.name.as_str().into(), text)
    }
}

/// Returns the limit in the name of a claim. Those of other clients are exclusive.
fn limit_of(stem: &str) -> Limit {
    let limit = || {
        let rest = stem.strip_prefix("_c_")?.get(ID_LENGTH..)?;
        let (limit, _) = rest.strip_prefix('-')?.split_once("-lock-")?;
        Limit::from_number(limit.parse().ok()?)
    };
    limit().unwrap_or(Limit::EXCLUSIVE)
}

/// Returns the line of these children of a lock's node.
pub(crate) fn line_of(names: &[String]) -> Line<Child> {
    let children = names.iter().filter_map(|name| Child::parse(name));
    let mut children: Vec<_> = children.collect();
    // The differences from one number are in the same order for all clients, also if the numbers are those of
    // no server.
    let least = children.iter().map(|child| child.number).min();
    let since = |child: &Child| child.number.wrapping_sub(least.unwrap_or_default());
    children.sort_by(|one, other| {
        let by_number = since(one).cmp(&since(other));
        by_number.then_with(|| one.name.cmp(&other.name))
    });
    Line::new(children)
}

impl Line<Child> {
    /// Returns the first claim if it may share the lock although its name does not say so: an exclusive
    /// holder may have been downgraded, which its data says.
    pub(crate) fn first_if_exclusive(&self) -> Option<&Child> {
        self.entries()
            .first()
            .filter(|first| first.limit.is_exclusive())
    }

    /// Records that the first claim was downgraded.
    pub(crate) fn share_first(&mut self, to: Token) {
        if let Some(first) = self.entries_mut().first_mut() {
            first.limit = to.limit();
            first.downgraded = Some(to);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn token(limit: u16) -> Token {
        Token::random().with_limit(Limit::from_number(limit).unwrap_or(Limit::EXCLUSIVE))
    }

    #[test]
    fn a_name_has_number_and_limit() {
        for (limit, text) in [(1, ""), (2, "-2"), (2047, "-2047")] {
            let name = format!("{}0000000042", stem(token(limit)));
            let child = Child::parse(&name).unwrap();
            assert_eq!(child.number, 42);
            assert_eq!(child.limit.number().unwrap_or(1), limit);
            assert!(name.ends_with(&format!("{text}-lock-0000000042")));
        }
        let wrapped = Child::parse("x-lock--2147483648").unwrap();
        assert_eq!(wrapped.number, i32::MIN);
        let wrapped = Child::parse("x-lock--000000005").unwrap();
        assert_eq!(wrapped.number, -5);
        for foreign in [
            "_c_1b-lock-0000000003",
            "lock-0000000003",
            "a-__READ__0000000003",
        ] {
            let child = Child::parse(foreign).unwrap();
            assert_eq!((child.number, child.limit), (3, Limit::EXCLUSIVE));
        }
        for none in ["", "config", "lock-123", "größe-lock-00000ö0001"] {
            assert_eq!(Child::parse(none), None, "{none}");
        }
    }

    #[test]
    fn a_claim_is_shown_by_its_token_and_another_client_by_its_name() {
        for (name, expected) in [
            (
                "_c_e823e7be-01c5-8c50-9a20-e4619a300481-lock-0000000003",
                "e823e7be01c58c509a20e4619a300481",
            ),
            (
                "_c_e823e7be-01c5-8c50-9a20-e4619a300481-5-lock-0000000003",
                "e823e7be01c58c509a20e4619a300481/5",
            ),
            // Of a version of this library whose tokens named no process.
            (
                "_c_01234567-89ab-4def-8123-456789abcdef-5-lock-0000000003",
                "0123456789ab4def8123456789abcdef/5",
            ),
        ] {
            assert_eq!(&*Child::parse(name).unwrap().text(), expected);
        }
        for foreign in [
            "_c_01234567-89ab-4def-8123-456789abcdef-lock-0000000003",
            "_c_e823e7be-01c5-8c50-9a20-e4619a30048ü-lock-0000000003",
            "_c_1b-lock-0000000003",
            "thief-lock--2147483648",
            "0000000003",
        ] {
            assert_eq!(&*Child::parse(foreign).unwrap().text(), foreign);
        }
    }

    #[test]
    fn a_downgraded_claim_is_shown_by_its_present_token() {
        let holder = Token::random();
        let mut line = line_of(&[format!("{}0000000001", stem(holder))]);
        let shared = holder.again().with_limit(Limit::UNLIMITED);
        line.share_first(shared);
        let named = line.entries()[0].named();
        assert_eq!(named, Some(holder.with_limit(Limit::UNLIMITED)));
        let text = line.entries()[0].text();
        assert_eq!(&*text, shared.encode(&mut [0; 37]));
    }

    #[test]
    fn the_earliest_come_first_also_when_numbers_wrap() {
        let names: Vec<String> = [
            "b-lock--2147483647",
            "a-lock-2147483647",
            "c-lock--2147483648",
        ]
        .map(str::to_owned)
        .into();
        let line = line_of(&names);
        let order = line.entries().iter().map(|child| &child.name[..1]);
        let order: Vec<_> = order.collect();
        assert_eq!(order, ["a", "c", "b"]);
    }

    /// Other clients may create such children; no two clients may find different lines.
    #[test]
    fn children_with_numbers_far_apart_have_one_order() {
        let number = |n: i64| (n * 1_500_000_000) % (1 << 32) - (1 << 31);
        let names = (0..60).map(|n| format!("x-lock-{:010}", number(n)));
        let names: Vec<_> = names.collect();
        let line = line_of(&names);
        for step in [7, 11, 13, 59] {
            let others = (0..60).map(|n| names[n * step % 60].clone());
            let others: Vec<_> = others.collect();
            assert_eq!(line_of(&others).entries(), line.entries(), "{step}");
        }
    }
}
