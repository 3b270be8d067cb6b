//! Harness for test binaries with tests that some machines cannot run.
//!
//! In libtest, tests are ignored at compile time. Here a test can decide at run time: [`skip!`](crate::skip) ends the
//! test as ignored, with a reason. `#[macro_use] extern crate hairpin_testing` replaces `#[test]` in the whole
//! binary; `main` calls [`run_tests`]. The command line and the output are the same as with libtest.

use std::any::Any;
use std::panic::resume_unwind;
use std::process::ExitCode;
use std::thread;

use libtest_mimic::{Arguments, Completion, Failed, Trial};

use crate::skips;

#[derive(Debug)]
pub struct Test {
    /// Path of the test function, with crate and modules.
    pub path: &'static str,
    pub package: &'static str,
    pub run: fn(),
    /// Whether only another test starts this test, in a separate process: `BINARY --ignored --exact NAME`.
    pub is_child: bool,
}

inventory::collect!(Test);

impl Test {
    fn name(&self) -> &'static str {
        self.path.split_once("::").map_or(self.path, |(_, name)| name)
    }
}

/// Runs a test, and adds a skipped test to the list of skips.
fn run(package: &str, name: &str, test: impl FnOnce() + Send + 'static) -> Result<Completion, Failed> {
    let outcome = outcome(name, test)?;
    if let Completion::Ignored { reason: Some(reason) } = &outcome {
        skips::note(package, name, reason)?;
    }
    Ok(outcome)
}

/// Runs a test in its own thread, since the test may pin the thread or move the thread to another namespace.
fn outcome(name: &str, test: impl FnOnce() + Send + 'static) -> Result<Completion, Failed> {
    let thread = thread::Builder::new().name(name.to_owned());
    let payload = match thread.spawn(test).map_err(Failed::from)?.join() {
        Ok(()) => return Ok(Completion::Completed),
        Err(payload) => payload,
    };
    match payload.downcast::<Skipped>() {
        Ok(skipped) => Ok(Completion::ignored_with(skipped.0)),
        Err(payload) => Err(Failed::from(message(&*payload))),
    }
}

/// The panic payload of a skipped test: the reason.
struct Skipped(String);

#[doc(hidden)]
pub fn end_as_skipped(reason: String) -> ! {
    // Unlike `panic!`, `resume_unwind` does not call the panic hook, which would print a message.
    resume_unwind(Box::new(Skipped(reason)))
}

fn message(payload: &(dyn Any + Send)) -> String {
    let text = payload.downcast_ref::<String>().map(String::as_str).or(payload.downcast_ref::<&str>().copied());
    text.unwrap_or("the test panicked without a message").to_owned()
}

/// Runs the registered tests that the command line selects, `RUST_TEST_THREADS` at once.
pub fn run_tests() -> ExitCode {
    run_tests_and("", Vec::<(String, fn())>::new())
}

/// Like [`run_tests`], with additional named tests of the package.
pub fn run_tests_and<T: FnOnce() + Send + 'static>(package: &'static str, others: Vec<(String, T)>) -> ExitCode {
    let mut arguments = Arguments::from_args();
    let threads = std::env::var("RUST_TEST_THREADS").ok().and_then(|threads| threads.parse().ok());
    arguments.test_threads = arguments.test_threads.or(threads);
    let named = arguments.filter.clone().filter(|_| arguments.exact);
    let mut tests: Vec<&'static Test> = inventory::iter::<Test>.into_iter().collect();
    tests.retain(|test| !test.is_child || named.as_deref() == Some(test.name()));
    tests.sort_by_key(|test| test.path);
    let others =
        others.into_iter().map(|(name, test)| Trial::ignorable_test(name.clone(), move || run(package, &name, test)));
    let tests = tests.into_iter().map(|test| {
        Trial::ignorable_test(test.name(), || run(test.package, test.name(), test.run))
            .with_ignored_flag(test.is_child)
    });
    libtest_mimic::run(&arguments, others.chain(tests).collect()).exit_code()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_test_passes_is_ignored_with_its_reason_or_fails_with_its_message() {
        assert!(matches!(outcome("a", || {}), Ok(Completion::Completed)));
        let ignored = outcome("a", || crate::skip!("no {}", "namespaces"));
        assert!(matches!(ignored, Ok(Completion::Ignored { reason: Some(reason) }) if reason == "no namespaces"));
        let failed = outcome("a", || resume_unwind(Box::new("broken".to_owned()))).err().expect("the test fails");
        assert_eq!(failed.message(), Some("broken"));
    }

    #[test]
    fn or_skip_ends_the_test_on_an_error() {
        let ignored = outcome("a", || {
            assert_eq!(crate::or_skip!(Ok::<u8, String>(1)), 1);
            let _: u8 = crate::or_skip!(Err::<u8, _>("refused"));
        });
        assert!(matches!(ignored, Ok(Completion::Ignored { reason: Some(reason) }) if reason == "refused"));
    }
}
