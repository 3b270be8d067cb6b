//! Every wait has a time-out, and signals do not end a wait early.

use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::{Duration, Instant};

use hairpin_model::Waiting;
use hairpin_transports::{TransportError, Wire};

use super::ends::{Checked, LONG, SHORT, Subject, accept, is_timed_out, random_bytes, shown, text};
use crate::ensure;

pub(crate) fn opening(subject: &Subject) -> Checked {
    let setup = subject.setup(100, SHORT);
    let listener = subject.transport.listen(&setup).map_err(text)?;
    let address = listener.address();
    match accept(listener) {
        Err(TransportError::TimedOut { what: "connected", after }) => {
            ensure!(after == SHORT, "another time-out was used: {after:?}");
        }
        Err(other) => return Err(format!("accept without a client answers {other}")),
        Ok(_) => return Err("accept without a client returns a wire".to_owned()),
    }
    // The listener is closed, except in processes that other checks have started and that have not called exec yet.
    let deadline = Instant::now() + LONG;
    let answer = loop {
        let answer = subject.connect(&address, &setup);
        if answer.is_err() || Instant::now() > deadline {
            break answer;
        }
        std::thread::sleep(SHORT);
    };
    match answer {
        Ok(_) => Err(format!("connect without a listener at {address} returns a wire")),
        Err(error) => {
            ensure!(error.to_string().contains("(hint: "), "connect without a listener gives no hint: {error}");
            Ok(())
        }
    }
}

pub(crate) fn receiving(subject: &Subject) -> Checked {
    let (mut client, mut server) = subject.client(&subject.setup(100, SHORT))?;
    let mut into = [0; 100];
    for _ in 0..2 {
        let answer = client.receive(&mut into);
        ensure!(is_timed_out(&answer), "receive with a silent peer answers {}", shown(&answer));
        let answer = client.try_receive(&mut into).map_err(text)?;
        ensure!(answer.is_none(), "try_receive with a silent peer returns {answer:?}");
        for at_most in [Duration::ZERO, Duration::from_micros(50), Duration::from_millis(3)] {
            ensure!(!client.wait(at_most).map_err(text)?, "wait returns true, but nothing was sent");
        }
    }
    // One thread may open a wire and another thread use it; the time-outs then work on the other thread.
    let (answer, mut client) =
        std::thread::spawn(move || (client.receive(&mut [0; 100]), client)).join().map_err(|_| "panicked")?;
    ensure!(is_timed_out(&answer), "on another thread, receive answers {}", shown(&answer));
    // A wire is still usable after a time-out.
    subject.exchange(&mut *client, server.as_deref_mut(), &random_bytes(1, 100))
}

/// `wait(at_most)` sleeps once, and does not restart its time-out after a signal.
pub(crate) fn waiting(subject: &Subject) -> Checked {
    let (mut client, _far) = subject.client(&subject.setup(100, LONG))?;
    // Packets of a library's own, such as those that find the path's MTU, wake the first waits.
    for _ in 0..20 {
        if median_sleeps(&mut *client, Duration::from_millis(50), 3)? <= 1 {
            break;
        }
    }
    for (at_most_us, waits) in [(10, 21), (100, 21), (1_000, 21), (50_000, 5)] {
        let median = median_sleeps(&mut *client, Duration::from_micros(at_most_us), waits)?;
        ensure!(median <= 1, "a wait of {at_most_us} us without a message sleeps {median} times");
    }
    if subject.waiting == Waiting::Spin { Ok(()) } else { interrupted_wait(&mut *client) }
}

/// Median number of sleeps of a wait: the alarm of a blocking wire interrupts a few waits, which then sleep twice.
fn median_sleeps(client: &mut dyn Wire, at_most: Duration, waits: usize) -> Result<u64, String> {
    let mut sleeps = Vec::new();
    for _ in 0..waits {
        let before = sleeps_so_far();
        let ready = client.wait(at_most).map_err(text)?;
        ensure!(!ready, "wait returns true, but nothing was sent");
        sleeps.push(sleeps_so_far() - before);
    }
    sleeps.sort_unstable();
    Ok(sleeps[waits / 2])
}

/// Checks that a signal does not restart the time-out: the wait must end before `TIMEOUT` has passed since the signal.
/// Tries again in case the machine stalls.
fn interrupted_wait(client: &mut dyn Wire) -> Checked {
    const TIMEOUT: Duration = Duration::from_millis(40);
    let target = signalling::this_thread();
    for _ in 0..200 {
        let (slept_before, began) = (sleeps_so_far(), Instant::now());
        let on_time = std::thread::scope(|scope| {
            let signal = scope.spawn(move || {
                std::thread::sleep(TIMEOUT * 3 / 4);
                let signalled = began.elapsed();
                signalling::interrupt(target);
                signalled
            });
            let answer = client.wait(TIMEOUT).map_err(text);
            let (ended, sleeps) = (began.elapsed(), sleeps_so_far() - slept_before);
            answer.and_then(|ready| {
                ensure!(!ready, "an interrupted wait returns true, but nothing was sent");
                let signalled = signal.join().map_err(|_| "the signalling thread panicked")?;
                // An interrupted wait sleeps twice; a wait that was not interrupted proves nothing.
                Ok(sleeps > 1 && ended < signalled + TIMEOUT)
            })
        })?;
        if on_time {
            return Ok(());
        }
    }
    Err("a wait restarts after a signal".to_owned())
}

/// Number of sleeps of the calling thread so far: its voluntary context switches.
pub(crate) fn sleeps_so_far() -> u64 {
    let status = std::fs::read_to_string("/proc/thread-self/status").expect("Linux");
    let line = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:")).expect("a count");
    line.trim().parse().expect("a count")
}

/// A signal whose handler was installed without SA_RESTART interrupts system calls; the wire repeats interrupted calls.
pub(crate) fn signals(subject: &Subject) -> Checked {
    let (mut client, mut server) = subject.client(&subject.setup(100, LONG))?;
    let done = AtomicBool::new(false);
    let target = signalling::this_thread();
    std::thread::scope(|scope| {
        let (done, message) = (&done, random_bytes(1, 100));
        let is_kernel = server.is_none();
        scope.spawn(move || {
            for round in 0.. {
                signalling::interrupt(target);
                std::thread::sleep(Duration::from_millis(1));
                if round == 10
                    && let Some(server) = &mut server
                {
                    server.send(&random_bytes(1, 100)).expect("the client is connected");
                }
                if done.load(SeqCst) {
                    break;
                }
            }
        });
        let answer = if is_kernel {
            // The kernel answers at once, so the signals interrupt a wait without a message.
            client.wait(SHORT).map_err(text).and_then(|_| subject.exchange(&mut *client, None, &message))
        } else {
            subject.receive_whole(&mut *client, 100).and_then(|came| {
                ensure!(came == message, "the message changed");
                Ok(())
            })
        };
        done.store(true, SeqCst);
        answer
    })
}

#[expect(unsafe_code, reason = "a signal handler and a signal to one thread")]
mod signalling {
    use std::sync::Once;

    /// A thread of this process, for [`interrupt`].
    #[derive(Clone, Copy)]
    pub(super) struct Thread(i32);

    pub(super) fn this_thread() -> Thread {
        // SAFETY: has no arguments and cannot fail.
        Thread(unsafe { libc::gettid() })
    }

    extern "C" fn do_nothing(_: i32) {}

    /// Sends SIGUSR1, with a handler that does nothing, to the thread.
    pub(super) fn interrupt(thread: Thread) {
        static INSTALLED: Once = Once::new();
        INSTALLED.call_once(|| {
            // SAFETY: an all-zero `sigaction` is valid, and a handler that does nothing is safe at any time.
            let answer = unsafe {
                let mut action: libc::sigaction = std::mem::zeroed();
                action.sa_sigaction = do_nothing as extern "C" fn(i32) as usize;
                libc::sigaction(libc::SIGUSR1, &raw const action, std::ptr::null_mut())
            };
            assert_eq!(answer, 0, "sigaction");
        });
        // SAFETY: plain integers; the handler is installed.
        unsafe {
            libc::syscall(libc::SYS_tgkill, libc::getpid(), thread.0, libc::SIGUSR1);
        }
    }
}
