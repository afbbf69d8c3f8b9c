//! A program as a picture: feeds above, ops below what they read, parameters inside their ops.

use std::collections::BTreeMap;
use std::fmt::Write;

use program::Program;

use super::layout::{NodePlace, NodesBefore, places};

const WIDTH: usize = 170;
const HEIGHT: usize = 46;
const GAP: usize = 20;
const LAYER: usize = 90;
/// Longer names are cut.
const NAME_MAX: usize = 24;

/// A box.
#[derive(Debug)]
struct DrawnNode {
    title: String,
    /// The parameters of an op, or the shape of a feed.
    below: String,
    class: &'static str,
}

/// The graph of the outermost block.
pub(super) fn draw(program: &Program) -> String {
    let (nodes, before) = graph(program);
    let places = places(&before);
    let n_layers = places.iter().map(|place| place.layer + 1).max().unwrap_or(1);
    let mut lengths = vec![0; n_layers];
    places.iter().for_each(|place| lengths[place.layer] += 1);
    let widest = lengths.iter().max().copied().unwrap_or(1).max(1);
    let width = widest * (WIDTH + GAP) + GAP;
    let height = n_layers * LAYER + GAP;
    let x = |place: NodePlace| {
        let free = (widest - lengths[place.layer]) * (WIDTH + GAP) / 2;
        GAP + free + place.at * (WIDTH + GAP)
    };
    let y = |place: NodePlace| GAP + place.layer * LAYER;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" \
         viewBox=\"0 0 {width} {height}\" font-family=\"sans-serif\" font-size=\"12\">\n{STYLE}"
    );
    for (node, edges) in before.iter().enumerate() {
        for &from in edges {
            let (x1, y1) = (x(places[from]) + WIDTH / 2, y(places[from]) + HEIGHT);
            let (x2, y2) = (x(places[node]) + WIDTH / 2, y(places[node]));
            let middle = (y1 + y2) / 2;
            writeln!(svg, "<path d=\"M{x1} {y1}C{x1} {middle} {x2} {middle} {x2} {y2}\"/>")
                .expect("text grows");
        }
    }
    for (node, &place) in nodes.iter().zip(&places) {
        draw_node(&mut svg, node, x(place), y(place));
    }
    svg.push_str("</svg>\n");
    svg
}

const STYLE: &str = "<style>path{fill:none;stroke:#888}rect{stroke:#444;rx:6}\
    .op{fill:#e8f0fe}.feed{fill:#e6f4ea}.fetch{fill:#fef7e0}.small{font-size:10px;fill:#555}\
    text{text-anchor:middle}</style>\n";

fn draw_node(svg: &mut String, node: &DrawnNode, x: usize, y: usize) {
    let middle = x + WIDTH / 2;
    let (first, second) = (y + 19, y + 36);
    let (title, below) = (escaped(&cut(&node.title)), escaped(&cut(&node.below)));
    let hint = escaped(&format!("{} {}", node.title, node.below));
    writeln!(
        svg,
        "<g><title>{hint}</title><rect class=\"{}\" x=\"{x}\" y=\"{y}\" width=\"{WIDTH}\" \
         height=\"{HEIGHT}\"/><text x=\"{middle}\" y=\"{first}\">{title}</text>\
         <text class=\"small\" x=\"{middle}\" y=\"{second}\">{below}</text></g>",
        node.class
    )
    .expect("text grows");
}

/// The boxes, and which comes before which.
fn graph(program: &Program) -> (Vec<DrawnNode>, NodesBefore) {
    let block = program.block(0);
    let (mut nodes, mut before): (Vec<DrawnNode>, NodesBefore) = (Vec::new(), Vec::new());
    // The node that wrote a variable last.
    let mut writers: BTreeMap<&str, usize> = BTreeMap::new();
    let shape = |name: &str| {
        let var = program.find_var(0, name);
        var.map_or(String::new(), |var| format!("{:?}", var.meta.dims))
    };
    for op in &block.ops {
        let mut edges = Vec::new();
        let mut params = Vec::new();
        for name in op.reads() {
            let var = program.find_var(0, name);
            let is_kept = var.is_some_and(|var| var.persistable);
            match writers.get(name) {
                Some(&node) => edges.push(node),
                None if is_kept && op.kind == "feed" => {}
                None if is_kept => params.push(name),
                None => {
                    nodes.push(DrawnNode {
                        title: name.to_string(),
                        below: shape(name),
                        class: "feed",
                    });
                    before.push(Vec::new());
                    writers.insert(name, nodes.len() - 1);
                    edges.push(nodes.len() - 1);
                }
            }
        }
        edges.sort_unstable();
        edges.dedup();
        let node = match op.kind.as_str() {
            "feed" => {
                let name = op.writes().next().unwrap_or("feed");
                DrawnNode { title: name.to_string(), below: shape(name), class: "feed" }
            }
            "fetch" => {
                let name = op.reads().next().unwrap_or("fetch");
                DrawnNode { title: name.to_string(), below: shape(name), class: "fetch" }
            }
            kind => DrawnNode { title: kind.to_string(), below: params.join(", "), class: "op" },
        };
        nodes.push(node);
        before.push(edges);
        op.writes().for_each(|name| {
            writers.insert(name, nodes.len() - 1);
        });
    }
    (nodes, before)
}

fn cut(text: &str) -> String {
    if text.chars().count() > NAME_MAX {
        text.chars().take(NAME_MAX - 1).chain(['…']).collect()
    } else {
        text.to_string()
    }
}

fn escaped(text: &str) -> String {
    let mut out = String::new();
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            c if c.is_control() => out.push('?'),
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use program::{Meta, OpDesc, VarDesc};
    use tensor::DType;

    use super::*;

    #[test]
    fn a_picture_has_a_box_for_each_op_and_is_the_same_again() {
        let mut program = Program::default();
        let block = program.block_mut(0);
        block.put_var(VarDesc::new("<x>", Meta::dense(DType::F32, &[-1, 3])));
        block.put_var(VarDesc::new("w", Meta::dense(DType::F32, &[3, 1])).persistable());
        block.put_var(VarDesc::new("y", Meta::dense(DType::F32, &[-1, 1])));
        let op = OpDesc::new("mul").input("X", "<x>").input("Y", "w").output("Out", "y");
        block.ops.push(op);
        let svg = draw(&program);
        assert_eq!(svg, draw(&program));
        assert_eq!(svg.matches("<rect").count(), 2, "{svg}");
        assert_eq!(svg.matches("<path d").count(), 1, "{svg}");
        assert!(svg.contains("&lt;x&gt;") && !svg.contains("<x>"), "{svg}");
    }
}
