package main

import (
	"errors"
	"fmt"
	"os/exec"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/lockbeat/lockbeat/testutil/redistest"
)

// describeMachine is the line above all figures.
func describeMachine() (string, error) {
	redis, err := redisVersion()
	if err != nil {
		return "", err
	}
	rueidis := "unknown"
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, m := range info.Deps {
			if m.Path == "github.com/redis/rueidis" {
				rueidis = m.Version
			}
		}
	}
	return fmt.Sprintf("%d CPUs, %s/%s, %s, redis %s on loopback, rueidis %s", runtime.NumCPU(),
		runtime.GOOS, runtime.GOARCH, runtime.Version(), redis, rueidis), nil
}

func redisVersion() (string, error) {
	said, err := exec.Command("redis-server", "--version").Output()
	if err != nil {
		return "", fmt.Errorf("redis-server: %w (`make bench` installs it)", err)
	}
	for field := range strings.FieldsSeq(string(said)) {
		if v, ok := strings.CutPrefix(field, "v="); ok {
			return v, nil
		}
	}
	return "unknown", nil
}

// cpuTime is the processor time that this process has used, in user and system
// mode.
func cpuTime() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u) // it fails for a wrong argument alone
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// server is a private Redis server, which has no data that could be lost.
type server struct{ *redistest.Server }

func openServer(args ...string) (server, error) {
	s, err := redistest.Open(args...)
	return server{s}, err
}

// usage is what a server has used since it started.
type usage struct {
	cpu     time.Duration
	scripts int // EVALSHA and EVAL
}

func (u usage) since(o usage) usage {
	return usage{u.cpu - o.cpu, u.scripts - o.scripts}
}

// logged is how long its AOF is.
func (s server) logged() (float64, error) {
	info, err := s.Do("INFO", "persistence").ToString()
	if err != nil {
		return 0, fmt.Errorf("INFO persistence: %w", err)
	}
	for line := range strings.Lines(info) {
		if size, ok := strings.CutPrefix(line, "aof_current_size:"); ok {
			return strconv.ParseFloat(strings.TrimSpace(size), 64)
		}
	}
	return 0, errors.New("INFO persistence: no aof_current_size")
}

// scripts are all that it has run.
func (s server) scripts() (int, error) {
	u, err := s.usage()
	return u.scripts, err
}

func (s server) usage() (u usage, err error) {
	cpu, err := s.Do("INFO", "cpu").ToString()
	if err != nil {
		return u, fmt.Errorf("INFO cpu: %w", err)
	}
	stats, err := s.Do("INFO", "commandstats").ToString()
	if err != nil {
		return u, fmt.Errorf("INFO commandstats: %w", err)
	}
	for line := range strings.Lines(cpu) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		switch name {
		case "used_cpu_sys", "used_cpu_user":
			seconds, err := strconv.ParseFloat(value, 64)
			if err != nil {
				return u, fmt.Errorf("INFO cpu: %w", err)
			}
			u.cpu += time.Duration(seconds * float64(time.Second))
		}
	}
	u.scripts, err = scriptsIn(stats)
	return u, err
}

// scriptsIn are those that INFO commandstats has counted.
func scriptsIn(stats string) (scripts int, err error) {
	for line := range strings.Lines(stats) {
		name, value, _ := strings.Cut(line, ":")
		if name != "cmdstat_evalsha" && name != "cmdstat_eval" {
			continue
		}
		var calls int
		if _, err := fmt.Sscanf(value, "calls=%d", &calls); err != nil {
			return 0, fmt.Errorf("INFO commandstats: %q: %w", value, err)
		}
		scripts += calls
	}
	return scripts, nil
}
