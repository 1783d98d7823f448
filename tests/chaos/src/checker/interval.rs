//! Sets of time spans.

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Spans(Vec<(u64, u64)>);

impl Spans {
    /// Returns the union of `spans`.
    pub fn of(spans: impl IntoIterator<Item = (u64, u64)>) -> Self {
        let mut spans: Vec<_> = spans.into_iter().filter(|(from, to)| from < to).collect();
        spans.sort_unstable();
        let mut all: Vec<(u64, u64)> = Vec::new();
        for (from, to) in spans {
            match all.last_mut() {
                Some(last) if from <= last.1 => last.1 = last.1.max(to),
                _ => all.push((from, to)),
            }
        }
        Self(all)
    }

    pub fn iter(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.0.iter().copied()
    }

    /// Returns the parts of these spans that lie between `from` and `to`.
    pub fn within(&self, from: u64, to: u64) -> impl Iterator<Item = (u64, u64)> + '_ {
        let first = self.0.partition_point(|span| span.1 <= from);
        let spans = self.0[first..].iter();
        spans
            .take_while(move |span| span.0 < to)
            .map(move |span| (span.0.max(from), span.1.min(to)))
    }

    /// Returns the total length of these spans between `from` and `to`.
    pub fn covered(&self, from: u64, to: u64) -> u64 {
        self.within(from, to).map(|(from, to)| to - from).sum()
    }

    pub fn touches(&self, from: u64, to: u64) -> bool {
        self.within(from, to).next().is_some()
    }

    /// Returns the parts of these spans that `others` do not cover.
    pub fn minus(&self, others: &Self) -> Self {
        let mut rest = Vec::new();
        for (mut from, to) in self.iter() {
            for (other_from, other_to) in others.within(from, to) {
                rest.push((from, other_from));
                from = other_to;
            }
            rest.push((from, to));
        }
        Self::of(rest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn adjacent_spans_are_merged() {
        let spans = Spans::of([(5, 7), (1, 3), (3, 4), (6, 9), (8, 8), (20, 20)]);
        assert_eq!(spans, Spans(vec![(1, 4), (5, 9)]));
    }

    #[test]
    fn covered_sums_the_overlap() {
        let spans = Spans::of([(1, 4), (5, 9)]);
        assert_eq!(spans.covered(0, 10), 7);
        assert_eq!(spans.covered(3, 6), 2);
        assert!(!spans.touches(4, 5));
        assert!(spans.touches(4, 6));
    }

    #[test]
    fn minus_removes_the_overlap() {
        let spans = Spans::of([(0, 10), (20, 30)]);
        let rest = spans.minus(&Spans::of([(2, 3), (9, 21), (29, 40)]));
        assert_eq!(rest, Spans(vec![(0, 2), (3, 9), (21, 29)]));
    }
}
