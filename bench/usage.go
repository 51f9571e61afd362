package main

import (
	"bytes"
	"fmt"
	"os"
	"runtime/pprof"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// cpuTime is the processor time that this process has used, in user and system mode.
func cpuTime() (time.Duration, error) {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0, fmt.Errorf("getrusage: %w", err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano()), nil
}

// peakRSS is the most memory that this process has had, in bytes. Not by
// getrusage, whose figure survives exec and so starts with the parent's.
func peakRSS() (int64, error) {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0, fmt.Errorf("peak memory is known on Linux only: %w", err)
	}
	for line := range strings.Lines(string(status)) {
		if rest, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			kib, err := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(rest), " kB"), 10, 64)
			if err != nil {
				return 0, fmt.Errorf("/proc/self/status: %w", err)
			}
			return kib << 10, nil
		}
	}
	return 0, fmt.Errorf("/proc/self/status has no VmHWM")
}

// goroutinesOf counts the goroutines that have a function of one of the packages on their stack.
func goroutinesOf(packages ...string) (int, error) {
	var text bytes.Buffer
	// The form in which stacks that are alike come once, with their
	// number: 100,000 of them make no 100 MB of text.
	if err := pprof.Lookup("goroutine").WriteTo(&text, 1); err != nil {
		return 0, fmt.Errorf("goroutine profile: %w", err)
	}
	return countStacks(text.String(), packages)
}

func countStacks(profile string, packages []string) (count int, err error) {
	_, stacks, _ := strings.Cut(profile, "\n") // the head
	for stack := range strings.SplitSeq(stacks, "\n\n") {
		for _, p := range packages {
			if !strings.Contains(stack, "\t"+p+".") {
				continue
			}
			number, _, _ := strings.Cut(strings.TrimSpace(stack), " ")
			n, err := strconv.Atoi(number)
			if err != nil {
				return 0, fmt.Errorf("goroutine profile: %w", err)
			}
			count += n
			break
		}
	}
	return count, nil
}
