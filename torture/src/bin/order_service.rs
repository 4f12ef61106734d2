//! An order service: writes orders and their messages into a database until it is killed.

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    torture::serve_orders(&arguments);
}
