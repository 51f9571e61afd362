// Package tree ends all processes below this one, also those that have left
// their parent, their process group and their session.
//
// On Linux this process is made the one that adopts orphans
// (PR_SET_CHILD_SUBREAPER), so that whatever its children start stays below it,
// and the kernel says when nothing is left: wait(2) fails with ECHILD. Which
// processes are below is read from /proc; each is signalled by a handle
// (pidfd), and only if it is still the process that was seen, so that no other
// one that has got its number is hit.
//
// Elsewhere there is no such thing: the command's process group is all that is
// known, and a process that leaves the group is not ended.
package tree
