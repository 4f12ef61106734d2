//! The built-in effects that start no child: `children` has the others, and says why.

mod call;
mod effect_file;
mod effect_http;
mod effect_stdout;
