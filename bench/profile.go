package main

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"runtime/pprof"
	"strings"
)

// profiler writes a CPU profile of what runs between start and stop,
// and a heap or allocation profile at stop.
type profiler struct {
	path string // without the ending
	kind string // "heap" or "allocs"
	cpu  *os.File
}

// startProfile returns nil, on which stop does nothing, if folder is "".
func startProfile(folder, what, kind string) (*profiler, error) {
	if folder == "" {
		return nil, nil
	}
	p := &profiler{path: filepath.Join(folder, strings.ReplaceAll(what, " ", "-")), kind: kind}
	cpu, err := os.Create(p.path + ".cpu")
	if err != nil {
		return nil, err
	}
	p.cpu = cpu
	return p, pprof.StartCPUProfile(cpu)
}

func (p *profiler) stop() error {
	if p == nil {
		return nil
	}
	pprof.StopCPUProfile()
	f, err := os.Create(p.path + "." + p.kind)
	if err != nil {
		return errors.Join(err, p.cpu.Close())
	}
	runtime.GC() // the profile is as of the last collection
	return errors.Join(pprof.Lookup(p.kind).WriteTo(f, 0), f.Close(), p.cpu.Close())
}
