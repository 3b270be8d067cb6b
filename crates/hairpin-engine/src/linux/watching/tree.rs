//! The processes that a command started, their sockets, and their waits for a CPU (proc(5)).

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs;

/// Maximum number of processes that are looked at.
const MAX_PROCESSES: usize = 4096;

/// The children of this process that a command did not start, and all their descendants.
pub(super) struct Tree {
    /// Processes that do not belong to it.
    strangers: BTreeSet<u32>,
    roots: Vec<u32>,
    /// How long each thread had waited for a CPU, in ns, when it was first seen with sockets, and last: threads end.
    waited_ns: BTreeMap<u32, (u64, u64)>,
}

/// A socket of a process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Owner {
    pub(super) process: u32,
    pub(super) program: String,
}

impl Tree {
    /// The descendants of this process that start from now on.
    pub(super) fn of_this_process() -> Self {
        let strangers = descendants(&[std::process::id()]).into_iter().collect();
        Self { strangers, roots: vec![std::process::id()], waited_ns: BTreeMap::new() }
    }

    /// A process that runs already, with its descendants.
    pub(super) fn of(process: u32) -> Self {
        Self { strangers: BTreeSet::new(), roots: vec![process], waited_ns: BTreeMap::new() }
    }

    pub(super) fn processes(&self) -> Vec<u32> {
        let mut all = descendants(&self.roots);
        all.retain(|process| !self.strangers.contains(process) && *process != std::process::id());
        all
    }

    /// Returns the owner of each socket, by inode.
    pub(super) fn sockets(&self) -> HashMap<u32, Owner> {
        let mut owners = HashMap::new();
        for process in self.processes() {
            let program = program(process);
            let Ok(files) = fs::read_dir(format!("/proc/{process}/fd")) else { continue };
            for file in files.flatten() {
                let Ok(target) = fs::read_link(file.path()) else { continue };
                let inode =
                    target.to_str().and_then(|text| text.strip_prefix("socket:[")?.strip_suffix(']')?.parse().ok());
                if let Some(inode) = inode {
                    owners.insert(inode, Owner { process, program: program.clone() });
                }
            }
        }
        owners
    }

    /// Notes how long each thread of these processes has waited for a CPU (`run_delay` of schedstat).
    pub(super) fn note_waits(&mut self, processes: &BTreeSet<u32>) {
        for process in processes {
            let Ok(threads) = fs::read_dir(format!("/proc/{process}/task")) else { continue };
            for thread in threads.flatten() {
                let text = fs::read_to_string(thread.path().join("schedstat")).unwrap_or_default();
                let waited_ns = text.split_whitespace().nth(1).and_then(|word| word.parse().ok());
                let id = thread.file_name().to_str().and_then(|name| name.parse().ok());
                if let Some((id, waited_ns)) = id.zip(waited_ns) {
                    self.waited_ns.entry(id).or_insert((waited_ns, waited_ns)).1 = waited_ns;
                }
            }
        }
    }

    /// The sum of the waits, in ns.
    pub(super) fn waited_ns(&self) -> u64 {
        self.waited_ns.values().map(|(first_ns, last_ns)| last_ns.saturating_sub(*first_ns)).sum()
    }
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
        let is_found = |tree: &Tree| tree.sockets().get(&inode).is_some_and(|owner| owner.program == "sh");
        let finds = |tree: &Tree| (0..1_000).any(|_| is_found(tree));
        let found = finds(&tree) && finds(&Tree::of(shell.id()));
        drop(own);
        shell.wait().unwrap();
        assert!(found && !tree.processes().contains(&shell.id()));
    }
}
