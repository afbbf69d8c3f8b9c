//! Feeding, fetching, caching, memory, errors of the executor.

use program::{Net, layers};
use tensor::Tensor;

use super::*;

#[test]
fn placeholder() {
    let mut net = Net::default();
    let mut b = net.builder();
    let x = layers::data(&mut b, "x", &[2], layers::Data::default()).unwrap();
    let m = layers::mean(&mut b, &x).unwrap();
    let mut exe = Executor::new();
    let scope = Scope::new();
    let mut feed = Feed::new().with("x", Tensor::new([1, 2], &[1.0f32, 3.0]).unwrap());
    let got = exe.run(&net.main, &scope, &mut feed, &[m.name()]).unwrap();
    assert_eq!(got[0].data::<f32>().unwrap(), [2.0]);
}
