//! The processes that a command started, their sockets, and their waits for a CPU (proc(5)).

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs;
use std::path::Path;

use hairpin_model::observed::ObservedProgram;

/// Maximum number of processes that are looked at.
const MAX_PROCESSES: usize = 4096;

/// The children of this process that a command did not start, and all their descendants.
pub(super) struct Tree {
    /// Processes that do not belong to it.
    strangers: BTreeSet<u32>,
    roots: Vec<u32>,
    /// How long each thread has waited for a CPU, in ns, and the processes of which that is known.
    waited_ns: BTreeMap<u32, u64>,
    known: BTreeSet<u32>,
}

impl Tree {
    /// The descendants of this process that start from now on.
    pub(super) fn of_this_process() -> Self {
        let strangers = descendants(&[std::process::id()]).into_iter().collect();
        Self { strangers, roots: vec![std::process::id()], waited_ns: BTreeMap::new(), known: BTreeSet::new() }
    }

    /// A process that runs already, with its descendants.
    pub(super) fn of(process: u32) -> Self {
        Self { strangers: BTreeSet::new(), roots: vec![process], waited_ns: BTreeMap::new(), known: BTreeSet::new() }
    }

    pub(super) fn processes(&self) -> Vec<u32> {
        let mut all = descendants(&self.roots);
        all.retain(|process| !self.strangers.contains(process) && *process != std::process::id());
        all
    }

    /// Returns the owner of each socket, by inode.
    pub(super) fn sockets(&self) -> HashMap<u32, ObservedProgram> {
        let mut owners = HashMap::new();
        for process in self.processes() {
            let program = program(process);
            let Ok(files) = fs::read_dir(format!("/proc/{process}/fd")) else { continue };
            for file in files.flatten() {
                if let Some(inode) = fs::read_link(file.path()).ok().and_then(|target| inode(&target)) {
                    owners.insert(inode, ObservedProgram { process, name: program.clone() });
                }
            }
        }
        owners
    }

    pub(super) fn threads(&mut self, processes: &BTreeSet<u32>) -> Vec<Thread> {
        let mut found = Vec::new();
        for process in processes {
            let Ok(threads) = fs::read_dir(format!("/proc/{process}/task")) else { continue };
            let is_new = self.known.insert(*process);
            for thread in threads.flatten() {
                let text = fs::read_to_string(thread.path().join("schedstat")).unwrap_or_default();
                let waited_ns: Option<u64> = text.split_whitespace().nth(1).and_then(|word| word.parse().ok());
                let id = thread.file_name().to_str().and_then(|name| name.parse().ok());
                let Some((id, waited_ns)) = id.zip(waited_ns) else { continue };
                let before_ns = self.waited_ns.insert(id, waited_ns).unwrap_or(0);
                let waited_ns = if is_new { 0 } else { waited_ns.saturating_sub(before_ns) };
                let call = fs::read_to_string(thread.path().join("syscall")).unwrap_or_default();
                let sends_on = descriptor_of_send(&call)
                    .and_then(|number| fs::read_link(format!("/proc/{process}/fd/{number}")).ok())
                    .and_then(|link| inode(&link));
                found.push(Thread { process: *process, waited_ns, sends_on });
            }
        }
        found
    }
}

/// What a thread does, and has done since it was looked at before.
pub(super) struct Thread {
    pub(super) process: u32,
    /// How long it waited for a CPU (`run_delay` of schedstat), in ns; 0 at the first look at its process.
    pub(super) waited_ns: u64,
    /// The inode of the socket on which it waits in a send call.
    pub(super) sends_on: Option<u32>,
}

/// Returns the descriptor of a send call in the text of /proc/PID/syscall: the number of the call, and its arguments.
fn descriptor_of_send(call: &str) -> Option<u32> {
    const SENDS: [libc::c_long; 6] = [
        libc::SYS_write,
        libc::SYS_writev,
        libc::SYS_sendto,
        libc::SYS_sendmsg,
        libc::SYS_sendmmsg,
        libc::SYS_sendfile,
    ];
    let mut words = call.split(' ');
    let number: libc::c_long = words.next()?.parse().ok()?;
    let descriptor = u32::from_str_radix(words.next()?.strip_prefix("0x")?, 16).ok()?;
    SENDS.contains(&number).then_some(descriptor)
}

/// The inode of a socket by the target of its link in /proc/PID/fd.
fn inode(target: &Path) -> Option<u32> {
    target.to_str()?.strip_prefix("socket:[")?.strip_suffix(']')?.parse().ok()
}

pub(super) fn program(process: u32) -> String {
    fs::read_to_string(format!("/proc/{process}/comm")).unwrap_or_default().trim().to_owned()
}

/// Returns these processes and all their descendants, without duplicates. While a child ends, the kernel may omit another one.
fn descendants(roots: &[u32]) -> Vec<u32> {
    let mut all: Vec<u32> = roots.to_vec();
    let mut next = 0;
    while next < all.len() && all.len() < MAX_PROCESSES {
        let Ok(threads) = fs::read_dir(format!("/proc/{}/task", all[next])) else {
            next += 1;
            continue;
        };
        for thread in threads.flatten() {
            let children = fs::read_to_string(thread.path().join("children")).unwrap_or_default();
            let children = children.split_whitespace().filter_map(|word| word.parse().ok());
            for child in children.collect::<Vec<u32>>() {
                if !all.contains(&child) {
                    all.push(child);
                }
            }
        }
        next += 1;
    }
    all
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader};
    use std::os::fd::{AsRawFd, OwnedFd};
    use std::os::unix::net::UnixStream;
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn a_send_call_has_its_descriptor() {
        let call =
            |number: libc::c_long| descriptor_of_send(&format!("{number} 0x1f 0x7ffc 0x0 0x0 0x0 0x0 0x7ff 0x7fd"));
        assert_eq!((call(libc::SYS_sendto), call(libc::SYS_recvfrom)), (Some(31), None));
        assert_eq!([descriptor_of_send("running"), descriptor_of_send("-1 0x7ffc 0x7fd")], [None, None]);
    }

    #[test]
    fn grandchildren_and_their_sockets_are_found() {
        let tree = Tree::of_this_process();
        let (own, socket) = UnixStream::pair().unwrap();
        let inode = fs::read_link(format!("/proc/self/fd/{}", socket.as_raw_fd())).unwrap();
        let mut command = Command::new("sh");
        // Both shells have the socket, until this end of it is closed.
        command.args(["-c", "exec 3<&0; sh -c 'echo ready; read line <&3' & wait"]);
        command.stdin(OwnedFd::from(socket)).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut shell = command.spawn().unwrap();
        // The command would keep a copy of the socket.
        drop(command);
        let mut line = String::new();
        BufReader::new(shell.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        let inode: u32 =
            inode.to_str().unwrap().trim_start_matches("socket:[").trim_end_matches(']').parse().unwrap();
        // The kernel's list may omit a process while another one of its parent ends (proc_pid_task_tid_children(5)), as those of
        // other tests do.
        let is_found = |tree: &Tree| tree.sockets().get(&inode).is_some_and(|owner| owner.name == "sh");
        let finds = |tree: &Tree| (0..1_000).any(|_| is_found(tree));
        let found = finds(&tree) && finds(&Tree::of(shell.id()));
        drop(own);
        shell.wait().unwrap();
        assert!(found && !tree.processes().contains(&shell.id()));
    }
}
