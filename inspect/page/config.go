package page

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/lockbeat/lockbeat/renewer"
)

const (
	defaultEvery = time.Second
	defaultMost  = 10_000

	shortestEvery = 100 * time.Millisecond
	// tracePlace is where Config.TraceURL has the ID of a trace.
	tracePlace = "{trace}"
)

// colours are those that Config.Colour can be, as page.css has them.
var colours = []string{"red", "orange", "green", "blue", "violet", "grey"}

// Config sets up a page. Its zero value is one that only reads.
type Config struct {
	// Title says in one line which locks these are, such as "production,
	// redis-1:6379". Default none.
	Title string
	// Colour is that of the bar with the Title: red, orange, green, blue,
	// violet or grey, the default.
	Colour string
	// BreakAs returns who breaks a lease by a request, such as the user's name;
	// "" if this caller may only read. It is called for each page that shows a
	// lease, possibly concurrently. Default nil: no caller may break one.
	BreakAs func(*http.Request) string
	// TraceURL is where a trace can be seen, with {trace} in place of its ID in
	// hexadecimal, such as "https://jaeger.example/trace/{trace}". Default:
	// traces of holders are text.
	TraceURL string
	// LogSecret is that of renewer.LogSecret and tracing.WithKeySecret. Default
	// nil: none.
	LogSecret []byte
	// Log is told, at Warn, of each lease that is broken here, with
	// renewer.HashName of the lock's name. Default slog.Default();
	// renewer.Silent for none.
	Log *slog.Logger
	// Every is how often the store is read while a browser looks, at least 100
	// ms. Default 1 s.
	Every time.Duration
	// Most is how many locks and limits are listed at most; others are found by
	// their full name. Default 10,000.
	Most int
}

func (c *Config) check() error {
	var faults []error
	fault := func(text string, args ...any) { faults = append(faults, fmt.Errorf(text, args...)) }
	if c.Colour == "" {
		c.Colour = "grey"
	}
	if !slices.Contains(colours, c.Colour) {
		fault("Config.Colour: %q is not one of %s", c.Colour, strings.Join(colours, ", "))
	}
	if c.TraceURL != "" && !isTraceURL(c.TraceURL) {
		fault("Config.TraceURL: %q is no http:// or https:// address with %s in it", c.TraceURL,
			tracePlace)
	}
	if c.Every == 0 {
		c.Every = defaultEvery
	}
	if c.Every < shortestEvery {
		fault("Config.Every: %v is below the shortest, %v", c.Every, shortestEvery)
	}
	if c.Most == 0 {
		c.Most = defaultMost
	}
	if c.Most < 0 {
		fault("Config.Most: %d is negative", c.Most)
	}
	c.Log = cmp.Or(c.Log, slog.Default())
	c.Title, c.LogSecret = text(c.Title), slices.Clone(c.LogSecret)
	if len(faults) > 0 {
		return fmt.Errorf("%w: %w", renewer.ErrConfig, errors.Join(faults...))
	}
	return nil
}

func isTraceURL(template string) bool {
	u, err := url.Parse(strings.ReplaceAll(template, tracePlace, strings.Repeat("0", 32)))
	return err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.Host != "" &&
		strings.Contains(template, tracePlace)
}

// traceURL is where a trace can be seen; "" if that is not known.
func (c *Config) traceURL(trace string) string {
	if trace == "" {
		return ""
	}
	return strings.ReplaceAll(c.TraceURL, tracePlace, trace)
}

// hash is what logs and spans show in place of a name.
func (c *Config) hash(name string) string { return renewer.HashName(name, c.LogSecret) }
