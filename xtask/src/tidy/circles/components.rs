//! Tarjan's algorithm.

use std::collections::{BTreeMap, BTreeSet};

/// The strongly connected components of a graph: each holds what can be reached from each other.
pub(super) fn components<'a, N>(
    nodes: impl IntoIterator<Item = &'a str>,
    next: impl Fn(&'a str) -> N,
) -> Vec<BTreeSet<&'a str>>
where
    N: Iterator<Item = &'a str>,
{
    let mut search = Search {
        next,
        order: BTreeMap::new(),
        stack: Vec::new(),
        found: Vec::new(),
    };
    for node in nodes {
        if !search.order.contains_key(node) {
            search.visit(node);
        }
    }
    search.found
}

struct Search<'a, F> {
    next: F,
    /// The nodes in the order of their first visits.
    order: BTreeMap<&'a str, usize>,
    /// Nodes that were visited and have no component yet.
    stack: Vec<&'a str>,
    found: Vec<BTreeSet<&'a str>>,
}

impl<'a, F, N> Search<'a, F>
where
    F: Fn(&'a str) -> N,
    N: Iterator<Item = &'a str>,
{
    /// Visits `node` and the nodes behind it, and returns the earliest one on the stack that it leads to. It calls
    /// itself as deep as the longest chain of imports.
    fn visit(&mut self, node: &'a str) -> usize {
        let order = self.order.len();
        self.order.insert(node, order);
        let height = self.stack.len();
        self.stack.push(node);
        let mut earliest = order;
        for next in (self.next)(node) {
            let reached = match self.order.get(next).copied() {
                None => self.visit(next),
                Some(order) if self.stack.contains(&next) => order,
                Some(_) => continue,
            };
            earliest = earliest.min(reached);
        }
        if earliest == order {
            self.found.push(self.stack.drain(height..).collect());
        }
        earliest
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Components of more than one node of a graph like `a>b b>c`.
    fn found(graph: &str) -> Vec<String> {
        let edges: Vec<_> = graph
            .split(' ')
            .filter_map(|edge| edge.split_once('>'))
            .collect();
        let nodes: BTreeSet<&str> = edges.iter().flat_map(|(from, to)| [*from, *to]).collect();
        let of_node = |node| {
            let edges = edges.iter().filter(move |(from, _)| *from == node);
            edges.map(|(_, to)| *to)
        };
        let components = components(nodes.iter().copied(), of_node);
        assert_eq!(
            components.iter().map(BTreeSet::len).sum::<usize>(),
            nodes.len()
        );
        let mut found: Vec<String> = components
            .iter()
            .filter(|component| component.len() > 1)
            .map(|component| component.iter().copied().collect())
            .collect();
        found.sort();
        found
    }

    #[test]
    fn components_are_what_leads_to_each_other() {
        assert_eq!(found("a>b b>c a>c"), [""; 0]);
        assert_eq!(found("a>b b>a"), ["ab"]);
        assert_eq!(found("a>b b>c c>a c>d d>e"), ["abc"]);
        assert_eq!(found("a>b b>a b>c c>d d>c"), ["ab", "cd"]);
        // A circle that is joined to an earlier one from behind.
        assert_eq!(found("a>b b>c c>b c>d d>a e>a"), ["abcd"]);
        // A node that was left behind with a component of its own joins no later one.
        assert_eq!(found("a>c b>a b>c c>d d>c b>e e>b"), ["be", "cd"]);
    }
}
