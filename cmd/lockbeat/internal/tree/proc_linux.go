package tree

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"

	"golang.org/x/sys/unix"
)

// process is one line of /proc. A number may come back for another process;
// number and start time together do not.
type process struct {
	pid, parent int
	start       uint64 // in ticks since the system's start
	group       int
	dead        bool // it waits to be reaped
	stopped     bool // by a signal
}

// read reads what /proc says of a process; ok is false if there is none.
func read(pid int) (p process, ok bool) {
	// By bare system calls: it is done for every process there is, against a
	// deadline.
	fd, err := unix.Open("/proc/"+strconv.Itoa(pid)+"/stat", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return p, false
	}
	text := make([]byte, 512) // what is asked for comes first
	n, err := unix.Read(fd, text)
	_ = unix.Close(fd)
	if err != nil {
		return p, false
	}
	text = text[:n]
	// pid (name) state ppid … with the start time as 22nd field; a name may
	// have anything in it.
	end := bytes.LastIndexByte(text, ')')
	fields := bytes.Fields(text[end+1:])
	if end < 0 || len(fields) < 20 {
		return p, false
	}
	parent, err1 := strconv.Atoi(string(fields[1]))
	group, err2 := strconv.Atoi(string(fields[2]))
	start, err3 := strconv.ParseUint(string(fields[19]), 10, 64)
	if err1 != nil || err2 != nil || err3 != nil {
		return p, false
	}
	state := fields[0][0]
	return process{
		pid: pid, parent: parent, start: start, group: group,
		dead: state == 'Z' || state == 'X', stopped: state == 'T',
	}, true
}

// below returns all processes below this one, parents before their children,
// without the branches of the spared. It tells of each child of this one as
// soon as it is seen: a child that starts another and ends, again and again,
// would be gone when the rest had been read.
func below(spared map[int]uint64, tell func(process)) ([]process, error) {
	self, ok := read(os.Getpid())
	if !ok {
		return nil, errors.New("/proc does not show this process")
	}
	pids, err := numbers()
	if err != nil {
		return nil, err
	}
	children := make(map[int][]process)
	for _, pid := range pids {
		p, ok := read(pid)
		if !ok {
			continue
		}
		if start, ok := spared[pid]; p.parent == self.pid && ok && start == p.start {
			continue
		}
		if p.parent == self.pid && tell != nil {
			tell(p)
		}
		children[p.parent] = append(children[p.parent], p)
	}
	found := []process{self}
	for i := 0; i < len(found); i++ {
		for _, child := range children[found[i].pid] {
			// A child older than its parent was read before the parent's number
			// changed hands.
			if child.start >= found[i].start {
				found = append(found, child)
			}
		}
	}
	return found[1:], nil
}

// numbers are those of all processes, the newest first.
func numbers() ([]int, error) {
	proc, err := os.Open("/proc")
	if err != nil {
		return nil, fmt.Errorf("which processes there are: %w", err)
	}
	defer func() { _ = proc.Close() }()
	names, err := proc.Readdirnames(-1)
	if err != nil {
		return nil, fmt.Errorf("which processes there are: %w", err)
	}
	var pids []int
	for _, name := range names {
		if pid, err := strconv.Atoi(name); err == nil {
			pids = append(pids, pid)
		}
	}
	slices.Sort(pids)
	slices.Reverse(pids)
	return pids, nil
}
