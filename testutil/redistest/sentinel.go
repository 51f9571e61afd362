package redistest

import (
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"

	"github.com/redis/rueidis"
)

// MasterSet is the name under which the Sentinels know their primary.
const MasterSet = "primary"

// Sentinel is a primary and a replica, watched by three Sentinels.
// Its methods may be called concurrently.
type Sentinel struct {
	// Data has the first primary first, then its replica; fail-overs
	// change their roles, not their places.
	Data []*Server
	// Sentinels fail over when they are asked to, until [Sentinel.Patience]
	// says otherwise.
	Sentinels []*Server
}

// OpenSentinel starts two servers and three Sentinels, and returns once these
// know of all others, after 1 s or so. args go to the two servers. The caller
// must Close it. It returns ErrMissing where there is no redis-server.
func OpenSentinel(args ...string) (*Sentinel, error) {
	data := plain(append([]string{"--repl-diskless-sync-delay", "0"}, args...))
	watcher := plain([]string{"--sentinel"})
	watcher.config = true
	servers, err := openAll([]recipe{data, data, watcher, watcher, watcher})
	if err != nil {
		return nil, err
	}
	s := &Sentinel{Data: servers[:2:2], Sentinels: servers[2:]}
	if err := s.form(); err != nil {
		return nil, closeAll(servers, err)
	}
	return s, nil
}

func (s *Sentinel) form() error {
	if err := s.Data[1].Follow(s.Data[0]); err != nil {
		return err
	}
	for _, w := range s.Sentinels {
		// Since Redis 7. Older ones take longer to find each other, and that is
		// all.
		_ = w.do("SENTINEL", "DEBUG", "INFO-PERIOD", "200", "PING-PERIOD", "250", "ASK-PERIOD",
			"100")
		if err := errors.Join(
			w.do("SENTINEL", "MONITOR", MasterSet, "127.0.0.1", strconv.Itoa(s.Data[0].Port()),
				"2"),
			w.do("SENTINEL", "SET", MasterSet, "FAILOVER-TIMEOUT", "3000"),
			w.pace(forming),
		); err != nil {
			return err
		}
	}
	return errors.Join(s.AwaitWhole(), s.Patience(true))
}

// Follow makes s a replica of primary and returns once it has all of
// its data and the primary knows that, within 1 s or so.
func (s *Server) Follow(primary *Server) error {
	if err := s.do("REPLICAOF", "127.0.0.1", strconv.Itoa(primary.Port())); err != nil {
		return err
	}
	if err := await("the replica is in step", func() (bool, error) {
		info, err := s.info("INFO", "replication")
		return info["role"] == "slave" && info["master_link_status"] == "up", err
	}); err != nil {
		return err
	}
	// After a full copy the primary sends nothing new before the
	// replica's next acknowledgement, which comes once a second.
	return await("the primary feeds the replica", func() (bool, error) {
		info, err := primary.info("INFO", "replication")
		if err == nil {
			err = primary.do("PUBLISH", "redistest", "") // which is replicated, and changes nothing
		}
		if err != nil {
			return false, err
		}
		fed, err := primary.Do("WAIT", info["connected_slaves"], "2000").ToInt64()
		return strconv.FormatInt(fed, 10) == info["connected_slaves"], err
	})
}

// AwaitWhole returns once every Sentinel that runs sees a primary, a
// replica that is in step, and two other Sentinels.
func (s *Sentinel) AwaitWhole() error {
	for _, w := range s.Sentinels {
		if !w.running() {
			continue
		}
		if err := await("the Sentinels know of all", func() (bool, error) {
			state, err := w.Do("SENTINEL", "MASTER", MasterSet).AsStrMap()
			return state["flags"] == "master" && state["num-slaves"] == "1" &&
				state["num-other-sentinels"] == "2", err
		}); err != nil {
			return err
		}
	}
	for _, d := range s.Data {
		if err := await("the replica is in step", func() (bool, error) {
			return d.inStep()
		}); err != nil {
			return err
		}
	}
	return nil
}

// Nodes returns all servers, the Sentinels last.
func (s *Sentinel) Nodes() []*Server { return slices.Concat(s.Data, s.Sentinels) }

// ClientOption returns options for a client that asks the Sentinels.
func (s *Sentinel) ClientOption() rueidis.ClientOption {
	option := s.Data[0].ClientOption()
	option.ForceSingleClient = false
	option.InitAddress = nil
	for _, w := range s.Sentinels {
		option.InitAddress = append(option.InitAddress, w.Addr())
	}
	option.Sentinel.MasterSet = MasterSet
	return option
}

// Primary returns the server that the first Sentinel that runs takes for the
// primary.
func (s *Sentinel) Primary() (*Server, error) {
	for _, w := range s.Sentinels {
		if !w.running() {
			continue
		}
		at, err := w.Do("SENTINEL", "GET-MASTER-ADDR-BY-NAME", MasterSet).AsStrSlice()
		if err != nil || len(at) != 2 {
			return nil, errors.Join(fmt.Errorf("redistest: %s knows no primary", w.Addr()), err)
		}
		for _, d := range s.Data {
			if d.Addr() == net.JoinHostPort(at[0], at[1]) {
				return d, nil
			}
		}
		return nil, fmt.Errorf("redistest: %v is none of ours", at)
	}
	return nil, errors.New("redistest: no Sentinel runs")
}

// Replica returns the other of the two.
func (s *Sentinel) Replica() (*Server, error) {
	primary, err := s.Primary()
	if err != nil {
		return nil, err
	}
	if primary == s.Data[0] {
		return s.Data[1], nil
	}
	return s.Data[0], nil
}

// AwaitPrimary returns once d is the primary, by its own word and that of every
// Sentinel that runs.
func (s *Sentinel) AwaitPrimary(d *Server) error {
	return await("the server is the primary", func() (bool, error) { return s.isPrimary(d) })
}

func (s *Sentinel) isPrimary(d *Server) (bool, error) {
	info, err := d.info("INFO", "replication")
	if err != nil || info["role"] != "master" {
		return false, err
	}
	for _, w := range s.Sentinels {
		if !w.running() {
			continue
		}
		at, err := w.Do("SENTINEL", "GET-MASTER-ADDR-BY-NAME", MasterSet).AsStrSlice()
		if err != nil || len(at) != 2 || net.JoinHostPort(at[0], at[1]) != d.Addr() {
			return false, err
		}
	}
	return true, nil
}

// Failover has the Sentinels make the replica the primary, though
// nothing is wrong with the one they have.
func (s *Sentinel) Failover() error {
	replica, err := s.Replica()
	if err != nil {
		return err
	}
	first := s.Sentinels[0]
	return await("the replica is the primary", func() (bool, error) {
		if done, err := s.isPrimary(replica); done || err != nil {
			return done, err
		}
		state, err := first.Do("SENTINEL", "MASTER", MasterSet).AsStrMap()
		if err != nil || net.JoinHostPort(state["ip"], state["port"]) == replica.Addr() ||
			strings.Contains(state["flags"], "failover_in_progress") {
			return false, err
		}
		// On a busy machine it may give up, since it hears too little of the
		// replica, or another may undo what it has done, since that hears too
		// late of it. Then it is asked again.
		return false, first.do("SENTINEL", "FAILOVER", MasterSet)
	})
}

// How quick Sentinels are, in milliseconds: after downAfter of silence a server
// is down to them, and after four times publishEvery a primary that they take
// for a replica is made one again. They tell each other of themselves once in
// publishEvery.
type pace struct{ downAfter, publishEvery int }

var (
	forming = pace{downAfter: 60_000, publishEvery: 200}
	patient = pace{downAfter: 60_000, publishEvery: 2000}
	quick   = pace{downAfter: 300, publishEvery: 200}
)

// Patience keeps the Sentinels from acting on what they only think: there is no
// fail-over but those asked for, and none is undone by a Sentinel that hears of
// it late, as happens on a busy machine. So they are from the start. Without it
// they fail over when two of them find the primary gone for 300 ms. Sentinels
// that do not run are left out.
func (s *Sentinel) Patience(on bool) error {
	p := quick
	if on {
		p = patient
	}
	for _, w := range s.Sentinels {
		if !w.running() {
			continue
		}
		if err := w.pace(p); err != nil {
			return err
		}
	}
	return nil
}

func (s *Server) pace(p pace) error {
	// Since Redis 7. Older ones take longer for everything, and that is all.
	_ = s.do("SENTINEL", "DEBUG", "PUBLISH-PERIOD", strconv.Itoa(p.publishEvery))
	return s.do("SENTINEL", "SET", MasterSet, "DOWN-AFTER-MILLISECONDS", strconv.Itoa(p.downAfter))
}

// RefuseDemotion makes a server refuse the SLAVEOF by which Sentinels demote
// it, as if they could not reach it: after a fail-over it stays a primary of
// its own that its clients can reach. With false it obeys again, and Sentinels
// that have another primary demote it within 1 s or so. Follow works all the
// same; a Restart ends it.
func (s *Server) RefuseDemotion(on bool) error {
	rule := "+slaveof"
	if on {
		rule = "-slaveof"
	}
	// A Sentinel that demotes a server cuts all connections to it, ours too.
	return await("the server takes its orders", func() (bool, error) {
		return true, s.do("ACL", "SETUSER", "default", rule)
	})
}

// Close kills all servers and removes their directories. Clients
// should be closed before: see Server.NewClient.
func (s *Sentinel) Close() error {
	var err error
	for _, n := range s.Nodes() {
		err = errors.Join(err, n.Close())
	}
	return err
}
