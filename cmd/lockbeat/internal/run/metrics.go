//go:build unix

package run

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/lockbeat/lockbeat/cmd/lockbeat/internal/exit"
	"github.com/lockbeat/lockbeat/renewer"
)

// mostMetrics bounds what is read of a file, in bytes: ours have 2 kB.
const mostMetrics = 64 << 10

// metrics is a file for node_exporter's textfile collector. Its series are told
// apart by the file's name, not by the lock's, which may be one for each
// customer, and which two commands may share: node_exporter refuses all files
// if two have the same series.
type metrics struct {
	path   string
	values map[string]float64 // by series, as the file has them
}

// family is a metric.
type family struct {
	name, help, kind string
}

// What the file has, in this order.
var (
	started = family{
		"lockbeat_run_last_start_timestamp_seconds", "When the command last began.", "gauge",
	}
	ended = family{
		"lockbeat_run_last_end_timestamp_seconds", "When the command last ended.", "gauge",
	}
	succeeded = family{
		"lockbeat_run_last_success_timestamp_seconds",
		"When the command last ended with exit status 0; 0: it never has.", "gauge",
	}
	duration = family{
		"lockbeat_run_last_duration_seconds", "How long the command last ran.", "gauge",
	}
	status = family{
		"lockbeat_run_last_exit_status",
		"The exit status when the command last ended, or could not be started.", "gauge",
	}
	runs = family{
		"lockbeat_runs_total", "Calls of lockbeat run, by what came of them.", "counter",
	}
	families = []family{started, ended, succeeded, duration, status, runs}
)

// outcome is what came of a call.
type outcome string

const (
	outcomeSucceeded   outcome = "succeeded"
	outcomeFailed      outcome = "failed"      // also if the command could not be started
	outcomeSkipped     outcome = "skipped"     // another had the lock, with --skip
	outcomeHeld        outcome = "held"        // another had the lock, and --wait ran out
	outcomeUnavailable outcome = "unavailable" // Redis could not be asked
	outcomeLost        outcome = "lost"        // the lock was lost, and the command was ended
)

var outcomes = []outcome{
	outcomeSucceeded, outcomeFailed, outcomeSkipped, outcomeHeld, outcomeUnavailable, outcomeLost,
}

// series is how a file has one of a family's. o is "" where it has no outcomes.
func (m *metrics) series(f family, o outcome) string {
	file := strings.TrimSuffix(filepath.Base(m.path), metricsSuffix)
	text := f.name + "{" + label("run", file)
	if o != "" {
		text += "," + label("outcome", string(o))
	}
	return text + "}"
}

var escape = strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`)

func label(name, value string) string {
	return name + `="` + escape.Replace(strings.ToValidUTF8(value, "?")) + `"`
}

// all are the series of a family: of the counter one for each outcome.
func (m *metrics) all(f family) (series []string) {
	if f != runs {
		return []string{m.series(f, "")}
	}
	for _, o := range outcomes {
		series = append(series, m.series(f, o))
	}
	return series
}

// read reads what earlier runs have left. What is not of this file's making is
// dropped.
func (m *metrics) read() error {
	m.values = map[string]float64{m.series(succeeded, ""): 0}
	for _, series := range m.all(runs) {
		m.values[series] = 0
	}
	file, err := os.Open(m.path)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }()
	text, err := io.ReadAll(io.LimitReader(file, mostMetrics))
	if err != nil {
		return err
	}
	old := make(map[string]float64)
	for line := range strings.Lines(string(text)) {
		if i := strings.LastIndexByte(line, ' '); i > 0 && line[0] != '#' {
			if v, err := strconv.ParseFloat(strings.TrimSuffix(line[i+1:], "\n"), 64); err == nil {
				old[line[:i]] = v
			}
		}
	}
	for _, f := range families {
		for _, series := range m.all(f) {
			if v, ok := old[series]; ok {
				m.values[series] = v
			}
		}
	}
	return nil
}

// write replaces the file at once, so that none is read that is half written.
func (m *metrics) write() (err error) {
	var text strings.Builder
	for _, f := range families {
		head := fmt.Sprintf("# HELP %s %s\n# TYPE %s %s\n", f.name, f.help, f.name, f.kind)
		for _, series := range m.all(f) {
			if v, ok := m.values[series]; ok {
				text.WriteString(head)
				text.WriteString(series + " " + strconv.FormatFloat(v, 'f', -1, 64) + "\n")
				head = ""
			}
		}
	}
	file, err := os.CreateTemp(filepath.Dir(m.path), filepath.Base(m.path)+".")
	if err != nil {
		return err
	}
	_, err = file.WriteString(text.String())
	// node_exporter is another user.
	err = errors.Join(err, file.Chmod(0o644), file.Close()) //nolint:gosec // it is to be read
	if err == nil {
		err = os.Rename(file.Name(), m.path)
	}
	if err != nil {
		_ = os.Remove(file.Name())
	}
	return err
}

// record changes the file. A file that can't be written ends no job, and is
// warned of.
func (r *running) record(change func(m *metrics)) {
	if r.metrics == "" {
		return
	}
	m := metrics{path: r.metrics}
	err := m.read()
	if err == nil {
		change(&m)
		err = m.write()
	}
	if err != nil {
		r.warn("--metrics: " + err.Error())
	}
}

// recordStart notes that the command begins.
func (r *running) recordStart() {
	r.record(func(m *metrics) { m.values[m.series(started, "")] = seconds(r.begun) })
}

// recordEnd notes what came of this call.
func (r *running) recordEnd(err error) {
	now := time.Now()
	begun := cmp.Or(r.begun, now) // of a command that was not even found
	came := r.cameOf(err)
	r.record(func(m *metrics) {
		m.values[m.series(runs, came)]++
		switch came {
		case outcomeSkipped, outcomeHeld, outcomeUnavailable:
			return
		case outcomeSucceeded:
			m.values[m.series(succeeded, "")] = seconds(now)
		case outcomeFailed, outcomeLost:
		}
		m.values[m.series(ended, "")] = seconds(now)
		m.values[m.series(duration, "")] = now.Sub(begun).Seconds()
		m.values[m.series(status, "")] = float64(exit.Status(err))
	})
}

func (r *running) cameOf(err error) outcome {
	switch {
	case r.skipped:
		return outcomeSkipped
	case err == nil:
		return outcomeSucceeded
	case r.lost:
		return outcomeLost
	case !r.begun.IsZero():
		return outcomeFailed
	case errors.Is(err, renewer.ErrUnavailable):
		return outcomeUnavailable
	case errors.Is(err, renewer.ErrBusy):
		return outcomeHeld
	default:
		return outcomeFailed
	}
}

// seconds is an instant as Prometheus has them.
func seconds(t time.Time) float64 { return float64(t.UnixMilli()) / 1000 }
