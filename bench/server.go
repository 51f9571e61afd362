package main

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/lockbeat/lockbeat/testutil/redistest"
)

// slowFrom is the script time above which others notice, in us.
const slowFrom = 1000

// openServer starts a private server that notes every command above slowFrom.
func openServer() (*redistest.Server, error) {
	return redistest.Open("--slowlog-log-slower-than", strconv.Itoa(slowFrom), "--slowlog-max-len",
		"10000")
}

// favour gives the server the processor whenever it wants it, so that the time of
// a script is the script's, and not that of other processes: the slow
// log goes by the clock on the wall. It needs a privilege that only root has.
func favour(s *redistest.Server) error {
	info, err := s.Do("INFO", "server").ToString()
	if err != nil {
		return fmt.Errorf("INFO server: %w", err)
	}
	pid, err := strconv.Atoi(infoField(info, "process_id"))
	if err != nil {
		return fmt.Errorf("INFO server: process_id: %w", err)
	}
	// Of the main thread, which runs the scripts. Not by nice, which counts only
	// among the processes of one session where the kernel groups them by that.
	return unix.SchedSetAttr(pid,
		&unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: unix.SCHED_FIFO, Priority: 1}, 0)
}

// resetStats begins a new measurement.
func resetStats(s *redistest.Server) error {
	for _, c := range [][]string{{"CONFIG", "RESETSTAT"}, {"SLOWLOG", "RESET"}} {
		if err := s.Do(c...).Error(); err != nil {
			return fmt.Errorf("%s: %w", strings.Join(c, " "), err)
		}
	}
	return nil
}

// serverCPU is the processor time that the server has used since its start.
func serverCPU(s *redistest.Server) (time.Duration, error) {
	text, err := s.Do("INFO", "cpu").ToString()
	if err != nil {
		return 0, fmt.Errorf("INFO cpu: %w", err)
	}
	var sum float64
	for _, field := range []string{"used_cpu_sys", "used_cpu_user"} {
		seconds, err := strconv.ParseFloat(infoField(text, field), 64)
		if err != nil {
			return 0, fmt.Errorf("INFO cpu: %s: %w", field, err)
		}
		sum += seconds
	}
	return time.Duration(sum * float64(time.Second)), nil
}

// infoField is the value of a line "field:value" of INFO, "" if there is none.
func infoField(info, field string) string {
	for line := range strings.Lines(info) {
		if value, ok := strings.CutPrefix(line, field+":"); ok {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// scriptTimes is what the server says of the time of one EVALSHA
// since resetStats: "p50 23 us, p99 ...".
func scriptTimes(s *redistest.Server) (string, error) {
	text, err := s.Do("INFO", "latencystats").ToString()
	if err != nil {
		return "", fmt.Errorf("INFO latencystats: %w", err)
	}
	times := infoField(text, "latency_percentiles_usec_evalsha")
	if times == "" {
		return "unknown", nil // before Redis 7
	}
	return regexp.MustCompile(`=(\d+)[.\d]*,?`).ReplaceAllString(times, " $1 µs "), nil
}

// slow is one entry of the server's slow log.
type slow struct {
	took    time.Duration
	command []string
}

func slowlog(s *redistest.Server) ([]slow, error) {
	entries, err := s.Do("SLOWLOG", "GET", "-1").ToArray()
	if err != nil {
		return nil, fmt.Errorf("SLOWLOG GET: %w", err)
	}
	all := make([]slow, 0, len(entries))
	for _, e := range entries {
		fields, err := e.ToArray()
		if err != nil || len(fields) < 4 {
			return nil, fmt.Errorf("SLOWLOG GET: an entry of %d fields: %w", len(fields), err)
		}
		us, err := fields[2].ToInt64()
		if err != nil {
			return nil, fmt.Errorf("SLOWLOG GET: %w", err)
		}
		command, err := fields[3].AsStrSlice()
		if err != nil {
			return nil, fmt.Errorf("SLOWLOG GET: %w", err)
		}
		all = append(all, slow{time.Duration(us) * time.Microsecond, command})
	}
	return all, nil
}
