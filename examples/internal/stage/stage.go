// Package stage is what examples with servers need around their story: a Redis that can be
// stopped, keepers, printing, and a verdict. It is for this repository's examples only.
package stage

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/lockbeat/lockbeat/renewer"
)

// mostTime is how long a story may take.
const mostTime = 15 * time.Second

// Setting is how a story is told.
type Setting struct {
	Program string // its name
	Redis   string // host:port of a server to use; "" for one inside the program
	// host:port of the first server, the next one has the port above;
	// they go on serving then. "" for any port
	Listen string
	Out    io.Writer // where it is printed
	Colour bool
	// Apart gives each server locks of its own, as a wrong
	// configuration would. It is for tests, which see the verdict fail.
	Apart bool
}

// Story is told once. Its error is why it did not come to its end.
type Story func(context.Context, *Stage) error

// Stage is where a story is told, from one goroutine.
type Stage struct {
	page
	*redis

	setting Setting
	ports   ports
	begun   time.Time
	claims  []claim
	ends    []func(context.Context) error
}

// Play tells a story and whether all that it claims held. The error
// is not nil if it could not even begin, or not be ended.
func Play(ctx context.Context, set Setting, tell Story) (held bool, err error) {
	ports, err := parsePorts(set.Listen)
	if err != nil {
		return false, err
	}
	r, err := openRedis(set.Program, set.Redis)
	if err != nil {
		return false, err
	}
	defer r.close()
	s := &Stage{
		page: page{set.Out, set.Colour}, redis: r, setting: set, ports: ports,
		begun: time.Now(),
	}
	defer func() { err = errors.Join(err, s.strike()) }()
	return s.play(ctx, tell)
}

func (s *Stage) play(ctx context.Context, tell Story) (held bool, err error) {
	timed, cancel := context.WithTimeoutCause(ctx, mostTime, errors.New("the story took too long"))
	defer cancel()
	var faults []string
	if err := tell(timed, s); err != nil {
		if len(s.claims) == 0 {
			return false, err
		}
		faults = append(faults, err.Error())
	}
	if left, err := s.held(ctx); err != nil {
		s.Claim("locks left behind", err.Error(), false)
	} else {
		s.Claim("locks left behind",
			strings.TrimSpace(fmt.Sprintf("%d %s", len(left), strings.Join(left, " "))), len(
				left,
			) == 0)
	}
	took := time.Since(s.begun)
	s.Claim("time", Span(took), took < mostTime)
	held = s.verdict(faults)
	if s.setting.Listen != "" && ctx.Err() == nil {
		s.Print("The servers go on serving: try the commands above. Ctrl-C ends them.")
		<-ctx.Done()
	}
	return held, nil
}

// Stop makes Redis be gone for all nodes, as if it had been stopped.
// A server of the user's goes on.
func (s *Stage) Stop() {
	s.stop()
	s.Print("  Redis is stopped: its connections break, and it takes no new ones.")
}

// Resume ends a Stop.
func (s *Stage) Resume() {
	s.resume()
	s.Print("  Redis is back.")
}

// Where tells a reader which Redis it is.
func (s *Stage) Where() string { return s.where() }

// Keeper returns a keeper for a node, on a connection of its own, as
// a machine of its own would have.
func (s *Stage) Keeper(node string) (*renewer.Keeper, error) { return s.Observed(node, nil) }

// Observed is Keeper with an observer, unless that is nil.
func (s *Stage) Observed(node string, o renewer.Observer) (*renewer.Keeper, error) {
	n, err := openNode(s.option, node, s.prefix(node), TTL, o)
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", node, err)
	}
	s.AtEnd(n.close)
	return n.keeper, nil
}

// prefix is that of a node's keys.
func (s *Stage) prefix(node string) string {
	if s.setting.Apart {
		return s.name + "-" + node + ":"
	}
	return s.name + ":"
}

// AtEnd has end called when all is over, the last one first.
func (s *Stage) AtEnd(end func(context.Context) error) { s.ends = append(s.ends, end) }

// strike ends all that was begun, and leaves Redis as it was found.
func (s *Stage) strike() error {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	s.resume() // so that nobody waits
	var faults []error
	for _, end := range slices.Backward(s.ends) {
		faults = append(faults, end(ctx))
	}
	return errors.Join(append(faults, s.clean(ctx))...)
}
