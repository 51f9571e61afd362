package main

import (
	"fmt"
	"os/exec"
	"runtime"
	"runtime/debug"
	"strings"
)

// describeMachine is the line above all figures.
func describeMachine() (string, error) {
	version, err := exec.Command("redis-server", "--version").Output()
	if err != nil {
		return "", fmt.Errorf("redis-server: %w (`make bench` installs it)", err)
	}
	redis := "unknown"
	for field := range strings.FieldsSeq(string(version)) {
		if v, ok := strings.CutPrefix(field, "v="); ok {
			redis = v
		}
	}
	rueidis := "unknown"
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, m := range info.Deps {
			if m.Path == "github.com/redis/rueidis" {
				rueidis = m.Version
			}
		}
	}
	return fmt.Sprintf("%d CPUs, %s/%s, %s, redis %s on loopback, rueidis %s",
		runtime.NumCPU(), runtime.GOOS, runtime.GOARCH, runtime.Version(), redis, rueidis), nil
}
